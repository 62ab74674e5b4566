package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/telemetry"
)

// eventKinds is the kinds of events that this version knows.
func eventKinds() []string {
	var names []string
	for _, k := range telemetry.Schema() {
		names = append(names, k.Kind)
	}
	return names
}

// doubtKinds says which of the kinds asked for this version does not know. A newer server may have them: nothing is
// refused, but somebody who mistyped one would wait for it in vain.
func (s *session) doubtKinds(asked []string) {
	known := eventKinds()
	for _, kind := range asked {
		if !slices.Contains(known, kind) {
			s.say("this version knows no events of the kind %q; there are %s", kind, strings.Join(known, ", "))
		}
	}
}

// completeKinds offers the kinds of events in a shell.
func completeKinds(cmd *cobra.Command) {
	err := cmd.RegisterFlagCompletionFunc("kind",
		cobra.FixedCompletions(eventKinds(), cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // there is no such flag
	}
}
