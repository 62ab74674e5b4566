package cli

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/supply"
)

func (s *session) scalingCommand() *cobra.Command {
	var reset bool
	cmd := &cobra.Command{
		Use: "scaling [KEY=VALUE...]", Long: scalingKeys(),
		ValidArgsFunction: completeScalingKeys,
		RunE: func(cmd *cobra.Command, args []string) error {
			change, err := scaling.ParseSettings(args)
			if err != nil {
				return Usage("%v", err)
			}
			change.Reset = reset
			c, err := s.client()
			if err != nil {
				return err
			}
			if change.Empty() {
				return s.showScaling(cmd.Context(), c)
			}
			return s.setScaling(cmd.Context(), c, change)
		},
	}
	cmd.Flags().BoolVar(&reset, "reset", false, "give back to the configuration all that was set")
	return cmd
}

const fleetPath = "/v1/fleet"

func (s *session) showScaling(ctx context.Context, c Client) error {
	v, a, err := apiclient.Get[supply.View](ctx, c.Client, fleetPath)
	if ExitCode(err) == ExitNotFound { // it is off, which is no failure
		s.Say("%v", err)
		return nil
	}
	if err != nil {
		return err
	}
	return s.show(a.Body, func() error { return s.writeScaling(&v) })
}

func (s *session) setScaling(ctx context.Context, c Client, change scaling.SettingsChange) error {
	v, a, err := apiclient.Send[supply.View](ctx, c.Client, http.MethodPatch, fleetPath, change)
	if err != nil {
		return err
	}
	s.Say("set; decided on with the next sample, within seconds: millrace engine scaling")
	return s.show(a.Body, func() error { return s.write(settingsTable(&v)) })
}

// scalingKeys is what may be set, with what it is.
func scalingKeys() string {
	var b strings.Builder
	for _, key := range settable() {
		fmt.Fprintf(&b, "  %-26s %s\n", key.Path, key.Doc)
	}
	return strings.TrimRight(b.String(), "\n")
}

// settable is the settings that have a value.
func settable() []settings.Key {
	var zero scaling.Config
	return slices.DeleteFunc(slices.Clone(scaling.Keys.Keys), func(k settings.Key) bool {
		return k.Of(&zero).Kind() == reflect.Struct
	})
}
