package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

func newInstallCommand(env environment) *cobra.Command {
	return &cobra.Command{
		Use:  "install DIR",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			to, err := install(args[0])
			if err == nil {
				env.Say("installed %s", to)
			}
			return err
		},
	}
}

// install copies this program, so that it is there whole or not at all, also over one that runs.
func install(dir string) (to string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	from, err := os.Open(self)
	if err != nil {
		return "", err
	}
	defer from.Close() // it is only read
	part, err := os.CreateTemp(dir, ".millrace-")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(part, from)
	err = errors.Join(err, part.Chmod(0o755), part.Close())
	to = filepath.Join(dir, "millrace")
	if err == nil {
		err = os.Rename(part.Name(), to)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("install %s: %w", to, err), os.Remove(part.Name()))
	}
	return to, nil
}
