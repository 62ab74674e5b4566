package spool_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/store/spool"
)

func open(t *testing.T, parent string, max int64) *spool.Spool {
	t.Helper()
	s, err := spool.Open(parent, max)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func appendLines(t *testing.T, s *spool.Spool, from, to int) {
	t.Helper()
	var lines [][]byte
	for n := from; n < to; n++ {
		lines = append(lines, fmt.Appendf(nil, `{"n":%d}`, n))
	}
	if err := s.Append(lines, false); err != nil {
		t.Fatal(err)
	}
}

// read takes lines until there are none, or so many.
func read(t *testing.T, s *spool.Spool, most int) (all []string) {
	t.Helper()
	for len(all) < most {
		lines, to, err := s.Read(min(7, most-len(all)))
		if err != nil {
			t.Fatal(err)
		}
		if len(lines) == 0 {
			break
		}
		for _, line := range lines {
			all = append(all, string(line))
		}
		if err := s.Done(to); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func lines(from, to int) (all []string) {
	for n := from; n < to; n++ {
		all = append(all, fmt.Sprintf(`{"n":%d}`, n))
	}
	return all
}

func TestLinesOutliveTheProcess(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	s := open(t, parent, 1<<20)
	appendLines(t, s, 0, 20)
	if got := read(t, s, 5); !slices.Equal(got, lines(0, 5)) {
		t.Errorf("read %q", got)
	}
	other := open(t, parent, 1<<20) // a second process beside it
	if other.Dir() == s.Dir() {
		t.Fatal("two have one folder")
	}
	appendLines(t, other, 100, 103)
	for _, s := range []*spool.Spool{s, other} {
		if err := s.Close(); err != nil { // the lock ends, as it does with kill -9
			t.Fatal(err)
		}
	}
	torn := filepath.Join(s.Dir(), "lines.ndjson")
	f, err := os.OpenFile(torn, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"n":2`); err != nil { // cut off by a crash
		t.Fatal(err)
	}
	f.Close()
	s = open(t, parent, 1<<20)
	defer s.Close()
	want := append(lines(5, 20), lines(100, 103)...)
	if got := read(t, s, 100); !slices.Equal(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
	if folders, _ := os.ReadDir(parent); len(folders) != 1 || s.Waiting() != 0 {
		t.Errorf("%d folders, %d bytes wait", len(folders), s.Waiting())
	}
	appendLines(t, s, 20, 22)
	if got := read(t, s, 100); !slices.Equal(got, lines(20, 22)) {
		t.Errorf("then %q", got)
	}
}

// TestWhatIsReadIsNotTakenOver: processes that read some of their lines and are killed leave the others, in order and
// once, to the process that takes their folders over.
func TestWhatIsReadIsNotTakenOver(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	var dead []*spool.Spool
	var want []string
	for n := range 3 {
		s := open(t, parent, 1<<20)
		appendLines(t, s, 100*n, 100*n+20)
		if got := read(t, s, 7*n); len(got) != 7*n {
			t.Fatalf("read %d", len(got))
		}
		want = append(want, lines(100*n+7*n, 100*n+20)...)
		dead = append(dead, s)
	}
	for _, s := range dead {
		if err := s.Close(); err != nil { // the lock ends, as it does with kill -9
			t.Fatal(err)
		}
	}
	s := open(t, parent, 1<<20)
	defer s.Close()
	if got := read(t, s, 1000); !slices.Equal(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
	if s.Waiting() != 0 {
		t.Errorf("%d bytes wait", s.Waiting())
	}
}

func TestBound(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), 1000)
	defer s.Close()
	line := [][]byte{make([]byte, 99)}
	for range 10 {
		if err := s.Append(line, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Append(line, true); !errors.Is(err, spool.ErrFull) {
		t.Errorf("beyond the bound: %v", err)
	}
	read(t, s, 1)
	if err := s.Append(line, true); err != nil {
		t.Errorf("with room: %v", err)
	}
}

func TestAFolderThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := spool.Open(filepath.Join(file, "spool"), 1000); err == nil {
		t.Error("a file was taken for a folder")
	}
}

// FuzzQueue: whatever is appended, read and reopened in whatever order, lines come out as they went in, and the disk
// holds little more than what waits.
func FuzzQueue(f *testing.F) {
	f.Add(uint64(1), 200)
	f.Add(uint64(2), 400)
	f.Fuzz(func(t *testing.T, seed uint64, moves int) {
		rng := rand.New(rand.NewPCG(seed, 0))
		parent := t.TempDir()
		s := open(t, parent, 64<<20)
		defer func() { s.Close() }()
		in, out := 0, 0
		pad := make([]byte, 2000)
		for i := range pad {
			pad[i] = 'x'
		}
		for range min(moves, 500) {
			switch rng.IntN(8) {
			case 0:
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = open(t, parent, 64<<20)
			case 1, 2, 3:
				n := 1 + rng.IntN(100)
				var lines [][]byte
				for range n {
					lines = append(lines, fmt.Appendf(nil, "%d %s", in, pad[:rng.IntN(len(pad))]))
					in++
				}
				if err := s.Append(lines, false); err != nil {
					t.Fatal(err)
				}
			default:
				lines, to, err := s.Read(1 + rng.IntN(200))
				if err != nil {
					t.Fatal(err)
				}
				for _, line := range lines {
					var n int
					if _, err := fmt.Sscanf(string(line), "%d", &n); err != nil || n != out {
						t.Fatalf("line %d is %.20q", out, line)
					}
					out++
				}
				if err := s.Done(to); err != nil {
					t.Fatal(err)
				}
			}
		}
		for out < in {
			lines, to, err := s.Read(1000)
			if err != nil || len(lines) == 0 {
				t.Fatalf("%d of %d lines came out, %v", out, in, err)
			}
			out += len(lines)
			if err := s.Done(to); err != nil {
				t.Fatal(err)
			}
		}
		if s.Waiting() != 0 {
			t.Errorf("%d bytes wait", s.Waiting())
		}
	})
}
