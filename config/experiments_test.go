package config_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"reflect"
	"testing"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/experiment"
	"github.com/millrace/millrace/internal/experiment/report"
)

func noFiles(name string) ([]byte, error) { return nil, errors.New(name + ": there is no such file") }

// TestEveryExperimentKeyHasItsRow: a new field of an experiment is documented in the table, or this fails.
func TestEveryExperimentKeyHasItsRow(t *testing.T) {
	t.Parallel()
	experiment.Table().Holds(t.Errorf, reflect.TypeFor[experiment.Experiment]())
	experiment.SettingTable().Holds(t.Errorf, reflect.TypeFor[experiment.Setting]())
}

// TestExperimentsGiveTheirVerdicts runs the fast experiments that come with the program: every claim gets the verdict
// that is known of it, and the page of documentation says the same.
func TestExperimentsGiveTheirVerdicts(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/experiments.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range config.ExperimentNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, _ := config.ExperimentFile(name)
			e, err := config.ReadExperiment(name+".yaml", data, noFiles, environments())
			if err != nil {
				t.Fatal(err)
			}
			if e.Name != name {
				t.Errorf("the experiment in %s.yaml is called %s", name, e.Name)
			}
			if testing.Short() && e.Name > "002" {
				t.Skip("seconds of arithmetic in one goroutine: the race detector has nothing to find there")
			}
			if e.Slow {
				t.Skip("slow: make experiments plays it, and writes its verdicts into docs/experiments.md")
			}
			result, err := experiment.Run(context.Background(), e, experiment.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range result.Claims {
				t.Logf("%s: %s (%s)", c.Name, c.Verdict, c.Shows)
			}
			var section bytes.Buffer
			if err := report.WriteSection(&section, result, "experiments"); err != nil {
				t.Fatal(err)
			}
			if old, _ := report.SectionOf(string(page), name); old != section.String() {
				t.Errorf("docs/experiments.md is not current: make experiments")
			}
			for _, c := range result.Unexpected() {
				t.Errorf("%s: %s, want %s: %s", c.Name, c.Verdict, c.Expect, c.Shows)
			}
		})
	}
}

// TestExperimentKeysAreDocumented: the page lists the keys and metrics that there are.
func TestExperimentKeysAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/experiments.md")
	if err != nil {
		t.Fatal(err)
	}
	var section bytes.Buffer
	if err := report.WriteReference(&section); err != nil {
		t.Fatal(err)
	}
	if old, _ := report.SectionOf(string(page), report.ReferenceName); old != section.String() {
		t.Error("docs/experiments.md is not current: make experiments")
	}
}
