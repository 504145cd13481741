// The other sides of the benchmark: an upstream, the Go proxies to compare with, and the load.
// Standard library only.
module kube-understudy.invalid/bench

go 1.26.0
