package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/face/cli"
	"github.com/millrace/millrace/internal/simulate/sim"
)

// diagnosed is the diagnosis of a simulated run, with commands that simulate what would help.
func diagnosed(file string, given []string, engines int, result sim.Result) diagnosis.Report {
	report := diagnosis.Diagnose(result.Input)
	report.Next = nextSimulations(file, given, engines, report)
	return report
}

// nextSimulations is the commands that simulate the changes that help a run which began with so many engines.
func nextSimulations(file string, given []string, engines int, report diagnosis.Report) []string {
	next := []string{}
	for _, w := range report.WhatIfs {
		if w.Outcome != diagnosis.Helps {
			continue
		}
		var from, to int
		set, depth := strings.CutPrefix(w.Command, fmt.Sprintf("millrace run set %s ", report.Run))
		if _, err := fmt.Sscanf(w.Change, "engines %d -> %d", &from, &to); err == nil {
			set = fmt.Sprintf("fleet.engines=%d", engines+to-from)
		} else if !depth {
			continue
		}
		next = append(next, simulateCommand(file, slices.Concat(given, strings.Fields(set))))
	}
	return next
}

// simulateCommand simulates a file with settings, as a shell takes it. Of a key that is set twice the last one counts.
func simulateCommand(file string, set []string) string {
	command := "millrace simulate -f " + cli.ShellWord(file)
	for _, setting := range set {
		command += " --set " + cli.ShellWord(setting)
	}
	return command
}
