package pack_test

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer/pack"
)

var update = flag.Bool("update", false, "write the golden records again; only together with a new format number")

// TestTheFormatStays reads a group that was written when the format was new: a run that is going on must survive the
// deployment of a new version.
func TestTheFormatStays(t *testing.T) {
	t.Parallel()
	packed, text := filepath.Join("testdata", "group.bin"), filepath.Join("testdata", "group.json")
	if *update {
		writeGolden(t, packed, text)
	}
	b, err := os.ReadFile(packed)
	if err != nil {
		t.Fatal(err)
	}
	g, err := pack.ReadGroup(b)
	if err != nil {
		t.Fatal(err)
	}
	wantGolden(t, g, text)
}

// wantGolden compares what was read with what is written down.
func wantGolden(t *testing.T, read any, text string) {
	t.Helper()
	got, err := json.MarshalIndent(read, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(text)
	if err != nil {
		t.Fatal(err)
	}
	if string(got)+"\n" != string(want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func writeGolden(t *testing.T, packed, text string) {
	t.Helper()
	g := randomGroup(rand.New(rand.NewPCG(12, 0)))
	b, err := pack.Group(g)
	if err != nil {
		t.Fatal(err)
	}
	j, err := json.MarshalIndent(g, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{packed: b, text: append(j, '\n')} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTheFormatOfJournalsStays is the same of a journal.
func TestTheFormatOfJournalsStays(t *testing.T) {
	t.Parallel()
	file, text := filepath.Join("testdata", "journal.records.json"), filepath.Join("testdata", "journal.json")
	if *update {
		writeGoldenJournal(t, file, text)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var records [][]byte
	if err := json.Unmarshal(b, &records); err != nil {
		t.Fatal(err)
	}
	texts := make([]string, len(records))
	for i, r := range records {
		texts[i] = string(r)
	}
	ep := rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "demo", Seq: 3}, Sample: 1}
	journal, err := pack.ReadJournal(ep, texts)
	if err != nil {
		t.Fatal(err)
	}
	wantGolden(t, []any{journal.Checkpoint.Episode, journal.Answers}, text)
}

func writeGoldenJournal(t *testing.T, file, text string) {
	t.Helper()
	j := newJournalled(2)
	j.ref.Sample = 1
	j.now.Episode.Ref = j.ref
	for range 5 {
		j.phase(t)
	}
	records := make([][]byte, len(j.records))
	for i, r := range j.records {
		records[i] = []byte(r)
	}
	read, err := pack.ReadJournal(j.ref, j.records)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]any{file: records, text: []any{read.Checkpoint.Episode, read.Answers}} {
		b, err := json.MarshalIndent(data, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
