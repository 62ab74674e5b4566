package buffer_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/buffer/pack"
	"github.com/millrace/millrace/internal/store/buffer/readcompact"
)

// FuzzReadCompact reads junk as a batch in compact form.
func FuzzReadCompact(f *testing.F) {
	rdb := embedded(f)
	fix := open(f, rdb, spec(2, 9))
	fix.ready(0, 0, 1)
	raw, err := fix.ClaimRaw(fix.ctx, run, 0, 0, buffer.Share{})
	fix.ok(err)
	var whole bytes.Buffer
	fix.ok(raw.WriteCompact(&whole))
	f.Add(whole.Bytes())
	f.Add(whole.Bytes()[:20])
	f.Add([]byte("MRB\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := readcompact.Batch(bytes.NewReader(b))
		if err != nil && !errors.Is(err, pack.ErrCorrupt) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
	})
}

func TestACompactBatchThatIsCutOffIsNotRead(t *testing.T) {
	t.Parallel()
	f := open(t, embedded(t), spec(2, 9))
	f.ready(0, 0, 1)
	raw, err := f.ClaimRaw(f.ctx, run, 0, 0, buffer.Share{})
	f.ok(err)
	var whole bytes.Buffer
	f.ok(raw.WriteCompact(&whole))
	for n := range whole.Len() {
		if _, err := readcompact.Batch(bytes.NewReader(whole.Bytes()[:n])); err == nil {
			t.Fatalf("%d of %d bytes were read as a batch", n, whole.Len())
		}
	}
}
