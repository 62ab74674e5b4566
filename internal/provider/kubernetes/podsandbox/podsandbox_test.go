//go:build linux

package podsandbox

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	core "k8s.io/api/core/v1"
)

// TestImageOfTheDockerfile: containers run as the image's own Dockerfile says.
func TestImageOfTheDockerfile(t *testing.T) {
	t.Parallel()
	image, err := ReadImage("../../../../deploy/docker/Dockerfile", "/image")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(image.Entrypoint, []string{"/millrace"}) || image.User != "65532:65532" ||
		image.Env["HOME"] != "/var/lib/millrace" {
		t.Errorf("read as %+v", image)
	}
}

// TestVolumeChangesAtOnce: files that have changed are there under names that stay, and those before are gone.
func TestVolumeChangesAtOnce(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("a volume's files belong to root and the pod's group")
	}
	p := &pod{manifest: &core.Pod{}}
	dir := filepath.Join(t.TempDir(), "config")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two", "two"} {
		if err := p.publish(dir, map[string][]byte{"a": []byte(text), "b": []byte("same")}); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(got) != text {
			t.Errorf("a is %q, %v; want %q", got, err, text)
		}
	}
	if moments, err := filepath.Glob(filepath.Join(dir, "..moment_*")); err != nil || len(moments) != 1 {
		t.Errorf("left behind: %v, %v", moments, err)
	}
}

// TestQuote is how words reach a shell.
func TestQuote(t *testing.T) {
	t.Parallel()
	if got := quote("a b", `it's $x`); got != `'a b' 'it'\''s $x'` {
		t.Errorf("quoted as %s", got)
	}
}
