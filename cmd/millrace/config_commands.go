package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/environments"
	"github.com/millrace/millrace/internal/spec"
)

func newConfigCommand(env environment) *cobra.Command {
	parent := &cobra.Command{
		Use:   "config",
		Short: "Check run specs and configurations; print their schemas",
	}
	var service bool
	check := &cobra.Command{
		Use:   "check FILE...",
		Short: "Report every fault of run specs, with its line and what to write instead",
		Long: `Read run specs as a server would and report every fault with file, line, what is wrong and the nearest valid key. "-" is standard
input. With --service the files are configurations of server and worker.`,
		Example: "  millrace config check run.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			return checkFiles(env, files, service)
		},
	}
	check.Flags().BoolVar(&service, "service", false, "the files are service configurations, not run specs")
	schema := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of run specs, for editors",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text := spec.Schema()
			if service {
				text = config.ServiceSchema()
			}
			_, err := env.stdout.Write(text)
			return err
		},
	}
	schema.Flags().BoolVar(&service, "service", false, "the schema of service configurations")
	parent.AddCommand(check, schema)
	return parent
}

func checkFiles(env environment, files []string, service bool) error {
	faulty := 0
	for _, file := range files {
		data, err := env.readFile(file)
		if err != nil {
			return usage("%v", err)
		}
		if service {
			_, err = config.ReadService(file, data, os.Getenv)
		} else {
			_, err = environments.ReadSpec(file, data)
		}
		if err != nil {
			faulty++
			env.say("%v", err)
			continue
		}
		if _, err := fmt.Fprintf(env.stdout, "%s: ok\n", file); err != nil {
			return err
		}
	}
	if faulty > 0 {
		return fmt.Errorf("%d of %d files cannot be used", faulty, len(files))
	}
	return nil
}
