package adapterfiles

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
)

// What an adapter's directory may hold, and what is never opened: each case makes a directory below the prefix.
func TestAdaptersAreRegularFilesBelowThePrefix(t *testing.T) {
	t.Parallel()
	const config, weights = "adapter_config.json", "adapter_model.safetensors"
	for _, tt := range []struct {
		name string
		make func(t *testing.T, prefix, dir string) error
		says string // in the permanent failure; empty: it is fine
	}{
		{"a link to a file below", func(_ *testing.T, prefix, dir string) error {
			if err := os.Rename(filepath.Join(dir, weights), filepath.Join(prefix, "blob")); err != nil {
				return err
			}
			return os.Symlink("../blob", filepath.Join(dir, weights))
		}, ""},
		{"an absolute link to below", func(_ *testing.T, prefix, dir string) error {
			if err := os.Rename(dir, filepath.Join(prefix, "real")); err != nil {
				return err
			}
			return os.Symlink(filepath.Join(prefix, "real"), dir)
		}, ""},
		{"a link to outside", func(t *testing.T, _, dir string) error {
			elsewhere, err := os.MkdirTemp("", "outside")
			if err != nil {
				return err
			}
			t.Cleanup(func() { os.RemoveAll(elsewhere) })
			outside := filepath.Join(elsewhere, weights)
			if err := os.WriteFile(outside, []byte(noTensors), 0o600); err != nil {
				return err
			}
			return relink(outside, filepath.Join(dir, weights))
		}, "leads out"},
		{"a link to outside by dots", func(_ *testing.T, _, dir string) error {
			return relink("../../../../../../../../etc/passwd", filepath.Join(dir, weights))
		}, "leads out"},
		{"a link to nothing outside", func(_ *testing.T, _, dir string) error {
			return relink("/nowhere/at/all", filepath.Join(dir, config))
		}, "leads out"},
		{"a link to a device", func(_ *testing.T, _, dir string) error {
			return relink("/dev/zero", filepath.Join(dir, weights))
		}, "leads out"},
		{"links in a circle", func(_ *testing.T, _, dir string) error {
			return relink(weights, filepath.Join(dir, weights))
		}, "too many"},
		{"a file for a folder", func(_ *testing.T, _, dir string) error {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			return os.WriteFile(dir, nil, 0o600)
		}, "not a directory"},
		{"a FIFO", func(_ *testing.T, _, dir string) error {
			if err := os.Remove(filepath.Join(dir, weights)); err != nil {
				return err
			}
			return syscall.Mkfifo(filepath.Join(dir, weights), 0o600)
		}, "not a regular file"},
		{"a FIFO for a configuration", func(_ *testing.T, _, dir string) error {
			if err := os.Remove(filepath.Join(dir, config)); err != nil {
				return err
			}
			return syscall.Mkfifo(filepath.Join(dir, config), 0o600)
		}, "not a regular file"},
		{"a folder for weights", func(_ *testing.T, _, dir string) error {
			if err := os.Remove(filepath.Join(dir, weights)); err != nil {
				return err
			}
			return os.Mkdir(filepath.Join(dir, weights), 0o700)
		}, "not a regular file"},
		{"weights without end", func(_ *testing.T, _, dir string) error {
			return os.Truncate(filepath.Join(dir, weights), 1<<40)
		}, "is the most"},
		{"a configuration without end", func(_ *testing.T, _, dir string) error {
			return os.Truncate(filepath.Join(dir, config), 1<<30)
		}, "is the most"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := adapterDir(t, `{"r":8,"target_modules":["q_proj"]}`)
			prefix := filepath.Dir(dir)
			if err := tt.make(t, prefix, dir); err != nil {
				t.Fatal(err)
			}
			found, err := NewReader().Inspect(t.Context(), prefix, dir, 8)
			switch {
			case tt.says == "" && (err != nil || found.Digest == ""):
				t.Errorf("got %+v, %v", found, err)
			case tt.says != "" && (rollout.KindOf(err) != rollout.Permanent || !strings.Contains(err.Error(), tt.says)):
				t.Errorf("got %+v, %v; want a permanent failure that says %q", found, err, tt.says)
			}
		})
	}
}

// relink puts a link in a file's place.
func relink(target, name string) error {
	if err := os.Remove(name); err != nil {
		return err
	}
	return os.Symlink(target, name)
}
