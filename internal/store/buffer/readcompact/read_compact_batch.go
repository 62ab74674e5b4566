// Package readcompact reads batches in compact form, as a trainer does who asks for it. The service only writes them.
//
// Start reading at Batch.
package readcompact

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer/pack"
)

// magic begins a batch in compact form; its last byte is the format.
const magic = "MRB\x01"

// maxGroups is the most groups in a compact batch; Batch refuses more as corrupt.
const maxGroups = 1 << 20

// Batch reads what WriteCompact of package buffer has written.
func Batch(from io.Reader) (*rollout.Batch, error) {
	r := &compactReader{r: bufio.NewReader(from)}
	if string(r.bytes(len(magic))) != magic {
		return nil, fmt.Errorf("read batch: %w: not a batch in compact form", pack.ErrCorrupt)
	}
	b := &rollout.Batch{Groups: []rollout.Group{}}
	b.Run = rollout.RunName(r.bytes(r.length(1 << 10)))
	b.Step = rollout.Step(r.int())
	b.TrainerVersion = rollout.PolicyVersion(r.int())
	for range r.length(maxGroups) {
		packed := r.bytes(r.length(pack.MaxSize))
		if r.err != nil {
			break
		}
		g, err := pack.ReadGroup(packed)
		if err != nil {
			return nil, fmt.Errorf("read batch: %w", err)
		}
		b.Groups = append(b.Groups, *g)
	}
	if r.err != nil {
		return nil, fmt.Errorf("read batch: %w", r.err)
	}
	return b, nil
}

// compactReader stops at the first fault and then reads nothing.
type compactReader struct {
	r   *bufio.Reader
	err error
}

func (c *compactReader) length(most uint64) int {
	if c.err != nil {
		return 0
	}
	n, err := binary.ReadUvarint(c.r)
	if err == nil && n > most {
		err = fmt.Errorf("%w: length %d of at most %d", pack.ErrCorrupt, n, most)
	}
	if err != nil {
		c.err = cutOff(err)
		return 0
	}
	return int(n)
}

func (c *compactReader) int() int64 {
	if c.err != nil {
		return 0
	}
	n, err := binary.ReadVarint(c.r)
	if err != nil {
		c.err = cutOff(err)
	}
	return n
}

// bytes reads n bytes; memory grows with what really comes, not with what was announced.
func (c *compactReader) bytes(n int) []byte {
	if c.err != nil {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(c.r, int64(n)))
	if err == nil && len(b) < n {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		c.err = cutOff(err)
	}
	return b
}

func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
