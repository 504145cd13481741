"""The grants of KEP-5284's two user stories, verbatim, and the base permissions of their users."""

from collections.abc import Iterator

import yaml

from proxy.sandbox.api_client import Manifest

STORY_1 = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: impersonate:arbitrary-node
rules:
- apiGroups:
  - authentication.k8s.io
  resources:
  - nodes
  verbs:
  - impersonate:associated-node
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: impersonate:arbitrary-node
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: impersonate:arbitrary-node
subjects:
- kind: ServiceAccount
  name: default
  namespace: default
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: impersonate:arbitrary-node:list
rules:
- apiGroups:
  - ""
  resources:
  - pods
  verbs:
  - impersonate-on:associated-node:list
  - impersonate-on:associated-node:get
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: impersonate:arbitrary-node:list
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: impersonate:arbitrary-node:list
subjects:
- kind: ServiceAccount
  name: default
  namespace: default
"""
"""As a controller, I want to impersonate node I am running on to list/get pods on the node."""

STORY_2 = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: impersonate-user:vm:console
rules:
- apiGroups:
  - authentication.k8s.io
  resources:
  - users
  verbs:
  - impersonate:user-info
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: impersonate-user:vm:console
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: impersonate-user:vm:console
subjects:
- kind: ServiceAccount
  name: deputy
  namespace: deputy-ns
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: impersonate:vm:console:get
  namespace: default
rules:
  - apiGroups:
    - subresources.kubevirt.io
    resources:
    - virtualmachines/console
    verbs:
    - impersonate-on:user-info:get
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: impersonate:vm:console:get
  namespace: default
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: impersonate:vm:console:get
subjects:
- kind: ServiceAccount
  name: deputy
  namespace: deputy-ns
"""
"""As a controller, I am working as a deputy, receiving any user's request to access virtual machine
console in the default namespace."""

LIST_PODS: Manifest = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
OPEN_CONSOLES: Manifest = {
    "apiGroups": ["subresources.kubevirt.io"],
    "resources": ["virtualmachines/console"],
    "verbs": ["get"],
}


def manifests(story: str) -> Iterator[Manifest]:
    """Yield the objects of a story."""
    yield from yaml.safe_load_all(story)
