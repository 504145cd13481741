// Go's own HTTP server, which writes down how it reads each request; for tests only.
module kube-understudy.invalid/go-server

go 1.26.0
