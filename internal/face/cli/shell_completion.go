package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/apiclient"
)

// completePatience is how long a shell completion waits for a server.
const completePatience = 2 * time.Second

// completeRuns offers the runs of the server for the first argument.
func (s *session) completeRuns(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	found, err := offered[api.RunList](cmd.Context(), s, "/v1/runs")
	names := make([]string, 0, len(found.Runs))
	for _, r := range found.Runs {
		names = append(names, string(r.Spec.Name)+"\t"+string(r.State))
	}
	return names, directive(err)
}

// completeSettings offers a run, and then the fields of a running one that can be changed.
func (s *session) completeSettings(cmd *cobra.Command, args []string, word string) ([]string,
	cobra.ShellCompDirective) {
	if len(args) == 0 {
		return s.completeRuns(cmd, args, word)
	}
	return offeredSettings(), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeScalingKeys offers the fields of scaling that can be set.
func completeScalingKeys(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var offers []string
	for _, key := range settable() {
		offers = append(offers, key.Path+"=\t"+key.Doc)
	}
	return offers, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeEngines offers the engines of the fleet.
func (s *session) completeEngines(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	found, err := offered[api.EngineList](cmd.Context(), s, "/v1/engines")
	ids := make([]string, 0, len(found.Engines))
	for _, e := range found.Engines {
		ids = append(ids, string(e.ID)+"\t"+string(e.State))
	}
	return ids, directive(err)
}

// offered asks the server, for a short while.
func offered[T any](ctx context.Context, s *session, path string) (found T, err error) {
	c, err := s.client()
	if err != nil {
		return found, err
	}
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completePatience)
	defer cancel()
	found, _, err = apiclient.Get[T](ctx, c.Client, path)
	return found, err
}

func directive(err error) cobra.ShellCompDirective {
	if err != nil {
		return cobra.ShellCompDirectiveError
	}
	return cobra.ShellCompDirectiveNoFileComp
}

// complete offers fixed words for a flag.
func complete(cmd *cobra.Command, flag string, words []string) {
	if err := cmd.RegisterFlagCompletionFunc(flag,
		cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag
	}
}
