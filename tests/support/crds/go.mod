// Custom resource definitions that the manifests' components are checked against, from the modules of
// those who publish them. Nothing is built here: `go mod download` fetches, go.sum vouches.
module kube-understudy.invalid/crds

go 1.26.0

require (
	github.com/cert-manager/cert-manager v1.21.2
	github.com/prometheus-operator/prometheus-operator v0.94.1
)
