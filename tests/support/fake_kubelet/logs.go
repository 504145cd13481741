package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

// How often a follower looks for new lines; a file has no way to call us.
const followInterval = 20 * time.Millisecond

type logRequest struct {
	follow    bool
	tailLines int // negative: all of them
}

// copyLog writes the log so far and, when followed, everything after it until the client leaves
// or the log file is removed, which stands for the end of the container.
func (c container) copyLog(ctx context.Context, out io.Writer, wanted logRequest) error {
	file, err := os.OpenFile(c.logFile, os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if wanted.tailLines >= 0 {
		if err := seekToTail(file, wanted.tailLines); err != nil {
			return err
		}
	}
	for {
		_, missing := os.Stat(c.logFile)
		// Looked at before the copy: what was written before the removal is still delivered.
		if _, err := io.Copy(out, file); err != nil || !wanted.follow || errors.Is(missing, fs.ErrNotExist) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followInterval):
		}
	}
}

func seekToTail(file *os.File, lines int) error {
	content, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	end := len(bytes.TrimSuffix(content, []byte("\n")))
	start := len(content)
	for ; lines > 0 && start > 0; lines-- {
		start = bytes.LastIndexByte(content[:end], '\n') + 1
		end = max(start-1, 0)
	}
	_, err = file.Seek(int64(start), io.SeekStart)
	return err
}
