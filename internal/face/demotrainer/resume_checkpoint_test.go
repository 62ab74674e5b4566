package demotrainer_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/face/demotrainer"
	"github.com/millrace/millrace/internal/face/demotrainer/trainertest"
)

// lines reads a file of JSON lines.
func lines[T any](t *testing.T, path string) []T {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []T
	for scan := bufio.NewScanner(f); scan.Scan(); {
		var one T
		if err := json.Unmarshal(scan.Bytes(), &one); err != nil {
			t.Fatalf("%s: %v", scan.Bytes(), err)
		}
		all = append(all, one)
	}
	return all
}

type event struct {
	Event      string `json:"event"`
	Generation int64  `json:"generation"`
	Step       int64  `json:"step"`
	ResumeFrom *int64 `json:"resume_from"`
}

// trainFrom trains from the checkpoints in a folder, and writes down what was heard.
func trainFrom(ctx context.Context, t *testing.T, cfg demotrainer.Config, folder string, every int,
	heard string) error {
	t.Helper()
	var err error
	if cfg.Checkpoints, err = trainertest.OpenCheckpoints(folder, every); err != nil {
		return err
	}
	cfg.Heard = trainertest.Log(heard)
	return demotrainer.Run(ctx, cfg)
}

// Checkpoints after every second step, killed in step 3: step 2 is trained again, on the same batch, and its
// weights are a version of their own.
func TestResumesFromItsCheckpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(5)
		cfg := s.config(t)
		folder, heard := filepath.Join(t.TempDir(), "checkpoints"), filepath.Join(t.TempDir(), "events.jsonl")
		train := func(ctx context.Context) error { return trainFrom(ctx, t, cfg, folder, 2, heard) }
		ctx, kill := context.WithTimeout(t.Context(), 45*time.Second) // a step takes 12.6 s
		defer kill()
		if err := train(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("killed: %v", err)
		}
		if s.next != 3 {
			t.Fatalf("killed in step %d, want 3", s.next)
		}
		for range 2 { // the second one finds the run over and goes back behind nothing
			if err := train(t.Context()); err != nil {
				t.Fatal(err)
			}
			if s.next != 5 {
				t.Errorf("ended at step %d, want 5", s.next)
			}
		}
		type trained struct {
			Step       int64   `json:"step"`
			Generation int64   `json:"generation"`
			Version    int64   `json:"policy_version"`
			WallSec    float64 `json:"wall_seconds"`
		}
		got := lines[trained](t, cfg.Journal)
		for i := range got {
			if r := s.records[got[i].Step]; r.Generation == got[i].Generation && r.WallSec != got[i].WallSec {
				t.Errorf("step %d: the journal says %v s, the record %v s", got[i].Step, got[i].WallSec, r.WallSec)
			}
			got[i].WallSec = 0
		}
		want := []trained{{0, 1, 1, 0}, {1, 1, 2, 0}, {2, 1, 3, 0}, {2, 2, 4, 0}, {3, 2, 5, 0}, {4, 2, 6, 0}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("trained %v, want %v", got, want)
		}
		at := func(step int64) *int64 { return &step }
		wantEvents := []event{
			{"attached", 1, 0, at(0)},
			{"publishing", 1, 0, nil}, {"recorded", 1, 0, nil},
			{"publishing", 1, 1, nil}, {"recorded", 1, 1, nil},
			{"publishing", 1, 2, nil}, {"recorded", 1, 2, nil},
			{"attached", 2, 2, at(2)},
			{"publishing", 2, 2, nil}, {"recorded", 2, 2, nil},
			{"publishing", 2, 3, nil}, {"recorded", 2, 3, nil},
			{"publishing", 2, 4, nil}, {"recorded", 2, 4, nil},
			{"attached", 3, 5, at(5)},
		}
		if got := lines[event](t, heard); !reflect.DeepEqual(got, wantEvents) {
			t.Errorf("events %+v, want %+v", got, wantEvents)
		}
	})
}

// A trainer that was replaced says so, and what it saves afterwards is nobody's checkpoint.
func TestReplacedTrainerSavesNothingForItsSuccessor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(4)
		cfg := s.config(t)
		folder, heard := filepath.Join(t.TempDir(), "checkpoints"), filepath.Join(t.TempDir(), "events.jsonl")
		train := func() error { return trainFrom(t.Context(), t, cfg, folder, 1, heard) }
		old := make(chan error, 1)
		go func() { old <- train() }()
		time.Sleep(15 * time.Second) // step 0 is recorded and saved
		successor := make(chan error, 1)
		go func() { successor <- train() }()
		var refused *apiclient.Problem
		if err := <-old; !errors.As(err, &refused) {
			t.Fatalf("the replaced trainer ended with %v", err)
		}
		if err := <-successor; err != nil {
			t.Fatal(err)
		}
		names, err := filepath.Glob(filepath.Join(folder, "*"))
		if err != nil || len(names) != 2 {
			t.Fatalf("%v %v, want one checkpoint of each process", names, err)
		}
		for i, want := range []int64{1, 4} {
			var saved struct {
				NextStep int64 `json:"next_step"`
			}
			text, err := os.ReadFile(names[i])
			if err == nil {
				err = json.Unmarshal(text, &saved)
			}
			if err != nil || saved.NextStep != want {
				t.Errorf("%s: step %d, %v; want %d", names[i], saved.NextStep, err, want)
			}
		}
		fenced := 0
		for _, e := range lines[event](t, heard) {
			if e.Event == "fenced" {
				fenced++
				if e.Generation != 1 {
					t.Errorf("generation %d is fenced off, want 1", e.Generation)
				}
			}
		}
		if fenced != 1 {
			t.Errorf("%d refusals are noted, want 1", fenced)
		}
	})
}

func TestDamagedCheckpointIsNotGuessed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(1)
		cfg := s.config(t)
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "000000001.json"), []byte("{"), 0o644); err != nil {
			t.Fatal(err)
		}
		heard := filepath.Join(t.TempDir(), "events.jsonl")
		if err := trainFrom(t.Context(), t, cfg, folder, 1, heard); err == nil || s.generation != 0 {
			t.Errorf("%v after %d announcements, want an error before any", err, s.generation)
		}
	})
}

// Trainings that share a run's name write to the same paths, each its own weights, and say which.
func TestTrainingsShareThePathsOfTheirAdapters(t *testing.T) {
	t.Parallel()
	type published struct {
		Event  string `json:"event"`
		Path   string `json:"path"`
		Digest string `json:"digest"`
	}
	dir := t.TempDir()
	train := func(t *testing.T, weights int64) (all []published) {
		synctest.Test(t, func(t *testing.T) {
			s := newService(2)
			cfg := s.config(t)
			heard := filepath.Join(t.TempDir(), "events.jsonl")
			cfg.AdapterDir, cfg.Weights, cfg.Heard = dir, weights, trainertest.Log(heard)
			if err := demotrainer.Run(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			for _, e := range lines[published](t, heard) {
				if e.Event == "publishing" {
					all = append(all, e)
				}
			}
		})
		return all
	}
	first, again, second := train(t, 1), train(t, 1), train(t, 2)
	if !reflect.DeepEqual(first, again) || len(first) != 2 {
		t.Errorf("the same training published %v, and then %v", first, again)
	}
	for i := range second {
		if second[i].Path != first[i].Path || second[i].Digest == first[i].Digest {
			t.Errorf("another training published %v, the first one %v: want the same path and other weights",
				second[i], first[i])
		}
		weights, err := os.ReadFile(filepath.Join(second[i].Path, "adapter_model.safetensors"))
		if sum := sha256.Sum256(weights); err != nil || hex.EncodeToString(sum[:]) != second[i].Digest {
			t.Errorf("%s holds %x, %v; want %s", second[i].Path, sum, err, second[i].Digest)
		}
	}
}
