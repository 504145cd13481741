package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/creack/pty"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// container is a directory to run commands in and a log file. Commands find the log's path in
// CONTAINER_LOG: what they append there is what `kubectl logs` shows.
type container struct {
	directory, logFile string
}

// ExecInContainer runs a program of this machine in the container's directory.
func (c container) ExecInContainer(ctx context.Context, _, _, _ string, command []string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	program := exec.CommandContext(ctx, command[0], command[1:]...)
	program.Dir = c.directory
	program.Env = append(os.Environ(), "CONTAINER_LOG="+c.logFile)
	program.Cancel = func() error { return syscall.Kill(-program.Process.Pid, syscall.SIGKILL) }
	if tty {
		return exitCode(runOnTerminal(program, in, out, resize))
	}
	return exitCode(runOnPipes(program, in, out, err))
}

// AttachContainer echoes input to output and to the log; without input it follows the log.
func (c container) AttachContainer(ctx context.Context, _, _, _ string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	if in == nil {
		return c.copyLog(ctx, out, logRequest{follow: true, tailLines: -1})
	}
	return c.ExecInContainer(ctx, "", "", "", []string{"tee", "-a", c.logFile}, in, out, err, tty, resize, 0)
}

func runOnPipes(program *exec.Cmd, in io.Reader, out, err io.WriteCloser) error {
	program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	program.Stdout, program.Stderr = out, err
	if in == nil {
		return program.Run()
	}
	// Not program.Stdin: Wait would then block until the client closes its side, even when the
	// program has long ended.
	stdin, pipeError := program.StdinPipe()
	if pipeError != nil {
		return pipeError
	}
	if startError := program.Start(); startError != nil {
		return startError
	}
	go func() {
		_, _ = io.Copy(stdin, in)
		_ = stdin.Close()
	}()
	return program.Wait()
}

func runOnTerminal(program *exec.Cmd, in io.Reader, out io.Writer, resize <-chan remotecommand.TerminalSize) error {
	terminal, err := pty.StartWithAttrs(program, nil, &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL})
	if err != nil {
		return err
	}
	defer terminal.Close()
	go func() {
		for size := range resize {
			_ = pty.Setsize(terminal, &pty.Winsize{Rows: size.Height, Cols: size.Width})
		}
	}()
	if in != nil {
		go func() { _, _ = io.Copy(terminal, in) }()
	}
	// Reading ends with an error of its own when the program closes the terminal's other end.
	_, _ = io.Copy(out, terminal)
	return program.Wait()
}

// exitCode gives a program's end the type that the streaming library turns into an exit code.
func exitCode(err error) error {
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		code := ended.ExitCode()
		if status := ended.Sys().(syscall.WaitStatus); status.Signaled() {
			code = 128 + int(status.Signal()) // as container runtimes report it
		}
		return utilexec.CodeExitError{Err: err, Code: code}
	}
	if errors.Is(err, exec.ErrNotFound) {
		return utilexec.CodeExitError{Err: err, Code: 127}
	}
	return err
}
