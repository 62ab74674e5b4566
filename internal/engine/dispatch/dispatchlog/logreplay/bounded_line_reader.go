package logreplay

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxLineBytes bounds a line: an engine that is lost with all that it had takes the longest one.
const maxLineBytes = 64 << 20

// lineReader reads lines of bounded length and counts them.
type lineReader struct {
	in   *bufio.Reader
	line int // the one read last
	text []byte
}

// next is the next line, valid until the next call; io.EOF: there is none. A line without its end was cut off.
func (r *lineReader) next() ([]byte, error) {
	r.text = r.text[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		r.text = append(r.text, part...)
		switch {
		case err == nil:
			r.line++
			return bytes.TrimSpace(r.text), nil
		case len(r.text) > maxLineBytes:
			r.line++
			return nil, fmt.Errorf("more than %d bytes", maxLineBytes)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(r.text) == 0:
			return nil, io.EOF
		case errors.Is(err, io.EOF):
			r.line++
			return nil, fmt.Errorf("cut off after %d bytes: %w", len(r.text), ErrNoEnd)
		default:
			r.line++
			return nil, err
		}
	}
}

// shortened is the beginning of a line, for a person.
func shortened(text []byte) string {
	const most = 400
	if len(text) > most {
		return string(text[:most]) + " ..."
	}
	return string(text)
}
