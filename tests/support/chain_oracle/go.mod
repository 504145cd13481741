// Go's own verification of certificate chains, and a client that shows any; for tests only.
module kube-understudy.invalid/chain-oracle

go 1.26.0
