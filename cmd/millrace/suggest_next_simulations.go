package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/diagnosis"
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
	command := "millrace simulate -f " + forShell(file)
	for _, setting := range set {
		command += " --set " + forShell(setting)
	}
	return command
}

// forShell quotes what a shell would not take as one word.
func forShell(word string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("_-./=:,@%+", c)
	}
	if word != "" && strings.IndexFunc(word, func(c rune) bool { return !plain(c) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
