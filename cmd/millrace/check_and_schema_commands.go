package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/game/specfile"
	"github.com/millrace/millrace/internal/simulate/setup"
	"github.com/millrace/millrace/internal/simulate/sim"
)

func newConfigCommand(env environment) *cobra.Command {
	parent := &cobra.Command{
		Use: "config",
	}
	var kind fileKind
	check := &cobra.Command{
		Use:  "check FILE...",
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			if err := kind.validate(); err != nil {
				return err
			}
			return checkFiles(env, files, kind)
		},
	}
	kind.flags(check, "the files are")
	schema := &cobra.Command{
		Use:  "schema",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := kind.validate(); err != nil {
				return err
			}
			text := specfile.Schema()
			switch {
			case kind.service:
				text = config.ServiceSchema()
			case kind.setup:
				text = sim.Schema()
			}
			_, err := env.Stdout.Write(text)
			return err
		},
	}
	kind.flags(schema, "the schema of")
	parent.AddCommand(check, schema, newTokenCommand(env))
	return parent
}

// fileKind is which kind of file a command is about: run specs, unless it says otherwise.
type fileKind struct{ service, setup bool }

func (k *fileKind) flags(cmd *cobra.Command, about string) {
	cmd.Flags().BoolVar(&k.service, "service", false, about+" service configurations, not run specs")
	cmd.Flags().BoolVar(&k.setup, "setup", false, about+" setups of simulations, not run specs")
}

func (k *fileKind) validate() error {
	if k.service && k.setup {
		return usage("--service and --setup exclude each other")
	}
	return nil
}

func checkFiles(env environment, files []string, kind fileKind) error {
	faulty := 0
	for _, file := range files {
		data, err := env.ReadFile(file)
		if err != nil {
			return usage("%v", err)
		}
		switch {
		case kind.service:
			_, err = config.ReadService(file, data, os.Getenv)
		case kind.setup:
			_, _, err = setup.Read(file, data, nil)
		default:
			_, err = specfile.Read(file, data)
		}
		if err != nil {
			faulty++
			env.Say("%v", err)
			continue
		}
		if _, err := fmt.Fprintf(env.Stdout, "%s: ok\n", file); err != nil {
			return err
		}
	}
	if faulty > 0 {
		return fmt.Errorf("%d of %d files cannot be used", faulty, len(files))
	}
	return nil
}
