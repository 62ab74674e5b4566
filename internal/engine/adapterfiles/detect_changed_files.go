package adapterfiles

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Changed is the code of an adapter whose files differ from the published ones.
const Changed = "adapter_changed"

// Published is where an adapter's files are, and their state when they were published.
type Published struct {
	Name   string
	Prefix string // of the run's adapters: nothing outside of it is read
	Path   string
	Digest string // empty: not known
}

// Unchanged fails when an adapter's files differ from the published ones. Files that cannot be seen from here, and
// adapters without a prefix or a digest, pass.
func (r *Reader) Unchanged(ctx context.Context, a Published) error {
	if a.Prefix == "" || a.Digest == "" {
		return nil
	}
	found, err := r.read(ctx, a.Prefix, a.Path)
	switch {
	case invisible(err):
		return nil
	case err != nil:
		return fmt.Errorf("files of adapter %s: %w", a.Name, err)
	case found.digest == "":
		return noWeights(a.Path)
	case found.digest != a.Digest:
		return rollout.Fail(rollout.Permanent, Changed, fmt.Errorf(
			"the files of adapter %s at %s have changed since it was published: %s now, %s then; "+
				"put the old ones back, and publish new weights from a directory of their own",
			a.Name, a.Path, runspec.ShortDigest(found.digest), runspec.ShortDigest(a.Digest)))
	}
	return nil
}
