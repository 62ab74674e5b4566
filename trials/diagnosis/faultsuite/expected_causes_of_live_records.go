package faultsuite

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/diagnosis/recordinput"
	"github.com/millrace/millrace/internal/diagnosis/runrecord"
)

// liveWant is what a diagnosis must say of each run that package livefaults recorded; none: it is healthy.
var liveWant = map[string][]diagnosis.CauseName{
	"healthy":              nil,
	"saturated":            {Throughput},
	"all-engines-slow":     {EngineSlow},
	"one-engine-slow":      {EngineSlow},
	"engine-lost":          {EngineLost},
	"engine-lost-and-back": {EngineLost, EngineBack},
	"engine-drained":       {ScaleDown},
	"prefix-cache-off":     {PrefixHits},
	"own-limit":            {OwnLimit, Config},
	"depth-lowered":        {Config, Depth},
	"checkpoint":           {Checkpoint},
	"handover":             {Handover},
	"train-slower":         {Trainer},
	"publish-slow":         {Publish},
}

// LiveCases are the recorded runs of a folder.
func LiveCases(folder string) ([]Case, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json.gz"))
	if err != nil {
		return nil, err
	}
	var cases []Case
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json.gz")
		want, known := liveWant[name]
		if !known {
			return nil, fmt.Errorf("%s: nobody says what a diagnosis must find in it", file)
		}
		cases = append(cases, Case{Name: name, Injected: "on the whole service: see package livefaults", Want: want,
			Play: func(int, uint64) (Played, error) {
				record, err := readRecord(file)
				if err != nil {
					return Played{}, err
				}
				in, err := recordinput.Of(record)
				return Played{Record: record, Input: in}, err
			}})
	}
	return cases, nil
}

func readRecord(file string) (*runrecord.Record, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return runrecord.Read(file, f)
}
