package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/simulate/setup"
)

// FuzzReadService: a service configuration is read, or refused with faults that a person can read; so are the
// environment variables beside it.
func FuzzReadService(f *testing.F) {
	for _, pattern := range []string{"examples/service.yaml", "testdata/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal(pattern, files, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data, "")
		}
	}
	f.Add([]byte("listen: 127.0.0.1:80"), "rediss://:hunter2@r:6379/1")
	f.Add([]byte("redis: {url: \"redis://%zz\"}"), "\x00")
	f.Add([]byte("engines: [{url: a}, {url: a}]"), "correct-horse-battery,")
	f.Fuzz(func(t *testing.T, data []byte, value string) {
		service, err := config.ReadService("f", data, func(string) string { return value })
		if err == nil {
			return
		}
		var faults settings.Faults
		if !errors.As(err, &faults) || len(faults) == 0 || err.Error() == "" {
			t.Errorf("%T %v, with %+v", err, err, service)
		}
	})
}

// FuzzReadSetup: a setup is read, or refused with faults that a person can read; one that is written is read again as
// the same.
func FuzzReadSetup(f *testing.F) {
	for _, pattern := range []string{"setups/*.yaml", "testdata/setup*.yaml", "examples/seed-004.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal(pattern, files, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data, "fleet.engines=3")
		}
	}
	f.Add([]byte("name: a"), "fleet.events=[{at: 1s, kind: add}]")
	f.Add([]byte("fleet: 3"), "fleet.profile={")
	f.Fuzz(func(t *testing.T, data []byte, assignment string) {
		if strings.Contains(assignment, "profile") || bytes.Contains(data, []byte("profile")) {
			return // it may name any file
		}
		read, _, err := setup.Read("f", data, []string{assignment})
		if err != nil {
			var faults settings.Faults
			if !errors.As(err, &faults) || len(faults) == 0 || err.Error() == "" {
				t.Errorf("%T %v, with %+v", err, err, read)
			}
			return
		}
		text, err := json.Marshal(read)
		if err != nil {
			t.Fatal(err)
		}
		again, assumed, err := setup.Read("f", text, nil)
		if err != nil || len(assumed) > 0 || !reflect.DeepEqual(again.Fleet, read.Fleet) ||
			!reflect.DeepEqual(again.Workload, read.Workload) || again.Trainer != read.Trainer {
			t.Errorf("%s\nread again as %+v, assumed %v, %v", text, again, assumed, err)
		}
	})
}
