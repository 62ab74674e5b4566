package tokenizer

import (
	"slices"
	"testing"
)

func TestDensity(t *testing.T) {
	t.Parallel()
	tok := New()
	prose := `You are playing Diplomacy as FRANCE. It is the spring of 1901. Your units hold three centres, and the
other powers may attack at any moment. Write one order per line, only legal orders, and close the list with the tag.
Every army may move to an adjacent province, hold its position, or support another unit's move against an enemy.`
	for _, tt := range []struct {
		name, text string
		min, max   float64 // characters per token
	}{
		{"order", "A PAR - BUR\n", 12. / 8, 12. / 6},
		{"support", "A PAR S A MAR - BUR\n", 20. / 12, 20. / 8},
		{"prose", prose, 3.4, 4.4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := float64(len(tt.text)) / float64(len(tok.Encode(tt.text)))
			if got < tt.min || got > tt.max {
				t.Errorf("%.2f characters per token, want %.2f to %.2f", got, tt.min, tt.max)
			}
		})
	}
}

func TestControlTokens(t *testing.T) {
	t.Parallel()
	tok := New()
	ids := tok.Encode("<|im_start|>user\n<|im_end|>")
	if ids[0] != ImStart || ids[len(ids)-1] != EOS {
		t.Errorf("got %v", ids)
	}
	if got := tok.Decode(ids, true); got != "user\n" {
		t.Errorf("skipping control tokens gives %q", got)
	}
	if _, ok := tok.Piece(ID(tok.Ordinary())); ok {
		t.Error("an id between the pieces and the control tokens exists")
	}
}

func TestChildrenAreInByteOrder(t *testing.T) {
	t.Parallel()
	tok := New()
	var seen []ID
	tok.Children(0, 'a', 'z', func(_ int32, token ID) { seen = append(seen, token) })
	if len(seen) != 26 || !slices.IsSorted(seen) {
		t.Errorf("got %v", seen)
	}
}

func FuzzRoundTrip(f *testing.F) {
	for _, seed := range []string{"", "A PAR - BUR\n", "<|im_end|>", "<|im_", "\xff\xfe", "naïve 日本語 🎲", "    indented"} {
		f.Add(seed)
	}
	tok := New()
	f.Fuzz(func(t *testing.T, text string) {
		ids := tok.Encode(text)
		if got := tok.Decode(ids, false); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
		if again := tok.Encode(text); !slices.Equal(ids, again) {
			t.Errorf("two encodings of %q", text)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	tok := New()
	text := "You are playing Diplomacy as FRANCE. Units: A PAR, A MAR, F BRE. "
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		tok.Encode(text)
	}
}
