package cli

import (
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/spec"
)

// settingsHelp lists the keys of a running run that can be set, with what they take and mean.
func settingsHelp() string {
	var b strings.Builder
	for _, key := range spec.Live() {
		const indent = "\n      "
		fmt.Fprintf(&b, "  %s: %s%s%s\n", key.Path, key.Values(&runspec.Spec{}), indent,
			strings.Join(wrapped(key.Doc, 80-len(indent), true), indent))
	}
	return strings.TrimRight(b.String(), "\n")
}

// offeredSettings is the keys for completion.
func offeredSettings() []string {
	var offers []string
	for _, key := range spec.Live() {
		offers = append(offers, key.Path+"=\t"+key.Values(&runspec.Spec{}))
	}
	return offers
}
