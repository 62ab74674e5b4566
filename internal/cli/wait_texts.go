package cli

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/waitline"
)

// prefillText is how far the buffer is filled before step 0; empty: it is not being filled.
func prefillText(v runView) string {
	want := int64(v.Spec.Buffer.GroupsPerStep)
	if v.Spec.Buffer.Prefill != rollout.PrefillBatch {
		want *= int64(v.Spec.Buffer.Depth)
	}
	if b := v.Buffer; v.State.Over() || v.NextStep > 0 || b.Claimed+b.Completed > 0 || want == 0 || b.Ready >= want {
		return ""
	}
	return fmt.Sprintf("prefill  %s %d of %d groups ready", waitline.Bar(v.Buffer.Ready, want, 16), v.Buffer.Ready, want)
}

// publishingText is how far the newest version is loaded; empty: none is being loaded.
func publishingText(v runView) string {
	for _, p := range slices.Backward(v.Policies) {
		if p.State != rollout.PolicyLoading {
			continue
		}
		text := fmt.Sprintf("publish  v%d is being loaded, by %d engines so far", p.Version, len(p.LoadSec))
		if v.Fleet != nil && v.Fleet.Engines >= 1 {
			of := int64(v.Fleet.Engines + 0.5)
			text = fmt.Sprintf("publish  v%d %s loaded by %d of %d engines", p.Version,
				waitline.Bar(int64(len(p.LoadSec)), of, 16), len(p.LoadSec), of)
		}
		return text
	}
	return ""
}
