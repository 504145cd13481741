"""The list of all peers."""

from bench.contestants import Entry
from bench.peers.aiohttp_stock import AIOHTTP
from bench.peers.envoy import ENVOY
from bench.peers.kube_rbac_proxy import KUBE_RBAC_PROXY
from bench.peers.kubectl_proxy import KUBECTL_PROXY

PEERS: tuple[Entry, ...] = (ENVOY, KUBE_RBAC_PROXY, KUBECTL_PROXY, AIOHTTP)
