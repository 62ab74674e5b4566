package buffer

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/millrace/millrace/internal/store/buffer/pack"
)

// compactMagic begins a batch in compact form; its last byte is the format.
const compactMagic = "MRB\x01"

// WriteCompact writes the batch in compact form: the magic, the run's name, step, version and number of groups,
// then each group as package pack packs it, with its length before it. Lengths are unsigned varints, the other
// numbers signed ones. Whole groups are copied as they are stored.
func (b *RawBatch) WriteCompact(w io.Writer) error {
	head := []byte(compactMagic)
	head = binary.AppendUvarint(head, uint64(len(b.Run)))
	head = append(head, b.Run...)
	head = binary.AppendVarint(head, int64(b.Step))
	head = binary.AppendVarint(head, int64(b.TrainerVersion))
	head = binary.AppendUvarint(head, uint64(len(b.Groups)))
	if _, err := w.Write(head); err != nil {
		return fmt.Errorf("write batch: %w", err)
	}
	for i := range b.Groups {
		packed, err := b.Groups[i].repack()
		if err != nil {
			return fmt.Errorf("write batch: %w", err)
		}
		if _, err := w.Write(binary.AppendUvarint(nil, uint64(len(packed)))); err != nil {
			return fmt.Errorf("write batch: %w", err)
		}
		if _, err := w.Write(packed); err != nil {
			return fmt.Errorf("write batch: %w", err)
		}
	}
	return nil
}

func (g *RawGroup) repack() ([]byte, error) {
	if g.whole {
		return g.packed, nil
	}
	group, err := g.unpack()
	if err != nil {
		return nil, err
	}
	return pack.Group(group)
}
