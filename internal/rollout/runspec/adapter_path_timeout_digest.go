package runspec

import (
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/millrace/millrace/internal/rollout"
)

// DefaultLoadTimeout is the LoadTimeout of a spec that names none.
const DefaultLoadTimeout = 20 * time.Second

// Patience is how long to wait for slower engines.
func (a AdapterSpec) Patience() time.Duration {
	if a.LoadTimeout > 0 {
		return a.LoadTimeout.Std()
	}
	return DefaultLoadTimeout
}

// Clean is the one spelling of an adapter's directory that lies below PathPrefix; any other path is refused, without a
// look at the file system. A spec without a prefix, which no configuration yields, takes every absolute path.
func (a AdapterSpec) Clean(dir string) (string, error) {
	switch {
	case strings.TrimSpace(dir) == "":
		return "", rollout.Refuse(rollout.Invalid, "the adapter has no path; send its directory as the engines see it")
	case strings.ContainsFunc(dir, unicode.IsControl):
		return "", rollout.Refuse(rollout.Invalid, "adapter path %q has control characters", dir)
	case !path.IsAbs(dir):
		return "", rollout.Refuse(rollout.Invalid,
			"adapter path %q is not absolute: an engine would look for it in its own folder, or on a hub", dir)
	case slices.Contains(strings.Split(dir, "/"), ".."):
		return "", rollout.Refuse(rollout.Invalid, "adapter path %q has a \"..\"; write it without", dir)
	}
	dir = path.Clean(dir)
	if prefix := path.Clean(a.PathPrefix); a.PathPrefix != "" && prefix != "/" && !strings.HasPrefix(dir, prefix+"/") {
		return "", rollout.Refuse(rollout.Invalid,
			"adapter path %q is outside of adapters.path_prefix, which is %s; write adapters below it", dir, prefix)
	}
	return dir, nil
}

// ShortDigest is enough of a digest to tell two apart by eye: "sha256:0123456789ab".
func ShortDigest(digest string) string {
	const shown = len("sha256:") + 12
	if digest == "" {
		return "no digest"
	}
	return digest[:min(shown, len(digest))]
}
