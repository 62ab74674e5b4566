package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace/millrace/config"
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
		var faults config.Faults
		if !errors.As(err, &faults) || len(faults) == 0 || err.Error() == "" {
			t.Errorf("%T %v, with %+v", err, err, service)
		}
	})
}
