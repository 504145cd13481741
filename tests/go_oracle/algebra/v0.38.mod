// As go.mod, with the version after it. It needs the Go 1.27 toolchain.
module kube-understudy.invalid/algebra

go 1.27.0

require (
	k8s.io/apimachinery v0.38.0-alpha.2
	k8s.io/apiserver v0.38.0-alpha.2
)

require (
	github.com/fxamacker/cbor/v2 v2.9.4 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	k8s.io/klog/v2 v2.140.0 // indirect
	k8s.io/utils v0.0.0-20260626114624-be93311217bd // indirect
	sigs.k8s.io/json v0.0.0-20250730193827-2d320260d730 // indirect
	sigs.k8s.io/structured-merge-diff/v7 v7.0.0 // indirect
)
