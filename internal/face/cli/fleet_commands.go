package cli

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/supply"
)

const fleetPath = "/v1/fleet"

func newFleetCommand(d Deps) *cobra.Command {
	s := &session{Deps: d}
	cmd := &cobra.Command{Use: "fleet", Short: "Show and set how many engines are bought, and by what",
		Long: "Show and set how many engines are bought, and by what (docs/scaling.md). Engines that you add and drain " +
			"yourself: " +
			"millrace engine.\n\n" + ExitCodesHelp}
	s.flags(cmd)
	cmd.AddCommand(s.fleetShowCommand(), s.fleetSetCommand())
	return cmd
}

func (s *session) fleetShowCommand() *cobra.Command {
	cmd := s.on("show", "Show how many engines are wanted and why, what was decided and what it did",
		func(ctx context.Context, c Client) error {
			view, a, err := apiclient.Get[supply.View](ctx, c.Client, fleetPath)
			if err != nil {
				return err
			}
			return s.show(a.Body, func() error { return s.writeFleet(&view) })
		})
	cmd.Long = "Show how many engines are wanted and why, how many there are, when the next change is possible, what " +
		"each " +
		"run needs,\nthe newest decisions with what they were predicted to do to steps and what they " +
		"did, and the cost so far."
	return cmd
}

func (s *session) fleetSetCommand() *cobra.Command {
	var reset bool
	cmd := &cobra.Command{
		Use:   "set KEY=VALUE ...",
		Short: "Change by what engines are bought, while the service runs",
		Long: "Change by what engines are bought, while the service runs. What is set holds until it is given back, with " +
			"KEY= or --reset,\nor until the section scaling of the workers' configuration changes. The keys " +
			"are\n\n" + scalingKeys(),
		Example: "  millrace fleet set min=2 max=8\n  millrace fleet set policy=queue queue.target_inputs=32\n" +
			"  millrace fleet set policy=fixed engines=4\n  millrace fleet set max=\n  millrace fleet set --reset",
		ValidArgsFunction: completeScalingKeys,
		RunE: func(cmd *cobra.Command, args []string) error {
			change, err := scaling.ParseSettings(args)
			if err != nil {
				return Usage("%v", err)
			}
			if change.Reset = reset; change.Empty() {
				return Usage("nothing is changed: want KEY=VALUE, such as min=2 max=8, or --reset")
			}
			c, err := s.client()
			if err != nil {
				return err
			}
			view, a, err := apiclient.Send[supply.View](cmd.Context(), c.Client, http.MethodPatch, fleetPath, change)
			if err != nil {
				return err
			}
			s.Say("set; decided on with the next sample, within seconds: millrace fleet show")
			return s.show(a.Body, func() error { return s.write(settingsTable(&view)) })
		},
	}
	cmd.Flags().BoolVar(&reset, "reset", false, "give back to the configuration all that was set")
	return cmd
}

// scalingKeys is what may be set, with what it is.
func scalingKeys() string {
	var b strings.Builder
	for _, key := range settable() {
		fmt.Fprintf(&b, "  %-26s %s\n", key.Path, key.Doc)
	}
	return strings.TrimRight(b.String(), "\n")
}
