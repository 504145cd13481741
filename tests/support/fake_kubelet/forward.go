package main

import (
	"context"
	"io"
	"net"
	"strconv"
)

// forwarder connects a port of any pod to the same port of this machine's loopback.
type forwarder struct{}

func (forwarder) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() {
		// The client's end of input is passed on while the answer is still under way; anything
		// but a clean end drops the whole connection.
		if _, err := io.Copy(conn, stream); err != nil {
			_ = conn.Close()
			return
		}
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, conn)
	return err
}
