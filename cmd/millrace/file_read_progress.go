package main

import (
	"io"
	"os"

	"github.com/millrace/millrace/internal/kit/progressline"
)

// countedFile is a file that is read, and shown how far it is.
type countedFile struct {
	*progressline.Line
	file       *os.File
	read, size int64
}

// countRead shows how far a file is read, as a share of its size where that is known.
func countRead(f *os.File, w io.Writer, what string) *countedFile {
	c := &countedFile{Line: progressline.Start(w, what), file: f}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		c.size = info.Size() >> 10
	}
	return c
}

func (c *countedFile) Read(p []byte) (int, error) {
	n, err := c.file.Read(p)
	c.read += int64(n)
	c.At(c.read>>10, c.size, "KiB", "")
	return n, err
}
