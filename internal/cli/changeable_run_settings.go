package cli

import (
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/spec"
)

// helpWidth is where what help says of a key is wrapped.
const helpWidth = 80

// settingsHelp lists the keys of a running run that can be set, with what they take and mean.
func settingsHelp() string {
	var b strings.Builder
	for _, key := range spec.Live() {
		const indent = "\n      "
		fmt.Fprintf(&b, "  %s: %s%s%s\n", key.Path, key.Values(&rollout.Spec{}), indent,
			strings.Join(wrapped(key.Doc, helpWidth-len(indent), true), indent))
	}
	return b.String()
}

// offeredSettings is the keys for completion.
func offeredSettings() []string {
	var offers []string
	for _, key := range spec.Live() {
		offers = append(offers, key.Path+"=\t"+key.Values(&rollout.Spec{}))
	}
	return offers
}
