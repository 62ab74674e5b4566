package faultsuite

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"sync"
)

// Known is what runs with changes were found to take, so that a suite that is tried again and again plays them once.
// It is right as long as neither the cases nor the simulators change.
type Known struct {
	mu      sync.Mutex
	StepSec map[string]float64
}

// ReadKnown reads what Write wrote; a file that is not there is empty.
func ReadKnown(file string) (*Known, error) {
	k := &Known{StepSec: map[string]float64{}}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return nil, err
	}
	return k, json.Unmarshal(text, &k.StepSec)
}

// Write keeps it.
func (k *Known) Write(file string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	text, err := json.MarshalIndent(k.StepSec, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// with is what a run takes with a change, played if it is not known.
func (k *Known) with(key string, c Change, play func(Change) (float64, bool)) (float64, bool) {
	if k == nil {
		return play(c)
	}
	k.mu.Lock()
	sec, known := k.StepSec[key]
	k.mu.Unlock()
	if known {
		return sec, true
	}
	sec, ok := play(c)
	if ok {
		k.mu.Lock()
		k.StepSec[key] = sec
		k.mu.Unlock()
	}
	return sec, ok
}
