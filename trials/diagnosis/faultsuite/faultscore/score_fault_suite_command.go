// Command faultscore tries diagnosis on runs with known faults and prints what became of it. The cases and their
// scores are package faultsuite's. Start reading at run.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"

	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/trials/diagnosis/faultsuite"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "faultscore:", err)
		os.Exit(1)
	}
}

func run() error {
	only := flag.String("only", "", "cases whose name matches this expression")
	seeds := flag.Int("seeds", 5, "runs of each case and scale")
	scales := flag.Int("scales", 2, "scales of groups and engines: 1, 2, ...")
	advice := flag.Bool("advice", true, "do what is advised, and compare")
	steps := flag.Bool("steps", false, "print the step times of the first run of each case instead")
	records := flag.String("records", "", "write the record of the first run of each case into this folder")
	wrong := flag.String("wrong", "", "write a page on each case that is not right into this folder")
	live := flag.String("live", "", "diagnose the runs that livefaults recorded in this folder instead, each once")
	drawn := flag.Int("drawn", 0, "play so many cases whose sizes are drawn instead, each once")
	waiting := flag.Int("waiting", 0, "play so many cases whose runs wait before anything happens instead, each once")
	healthy := flag.Int("healthy", 0, "play so many healthy runs whose sizes are drawn instead, each once")
	draw := flag.Uint64("draw", 1, "seed of these")
	page := flag.String("page", "", "try everything, those of -live included, and write the score into this file")
	service := flag.Bool("sim", false, "play the cases of package sim, not those of package requestsim")
	known := flag.String("known", "", "keep what advised changes do in this file, and read it from there")
	flag.Parse()
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	trials := faultsuite.Trials{Advice: *advice, Workers: runtime.NumCPU()}
	if *known != "" {
		if trials.Known, err = faultsuite.ReadKnown(*known); err != nil {
			return err
		}
	}
	if *page != "" {
		return errors.Join(writePage(*page, *live, *draw, trials), keep(trials.Known, *known))
	}
	all := faultsuite.RequestCases()
	if *service {
		all = faultsuite.SimCases()
	}
	if *drawn > 0 {
		all = faultsuite.DrawnCases(*drawn, *draw)
	}
	if *waiting > 0 {
		all = faultsuite.WaitingCases(*waiting, *draw)
	}
	if *healthy > 0 {
		all = faultsuite.HealthyCases(*healthy, *draw)
	}
	if *live != "" {
		if all, err = faultsuite.LiveCases(*live); err != nil {
			return err
		}
	}
	cases := slices.DeleteFunc(all, func(c faultsuite.Case) bool {
		return !pattern.MatchString(c.Name)
	})
	if *steps || *records != "" {
		return look(cases, *steps, *records)
	}
	if *live != "" || *drawn+*waiting+*healthy > 0 {
		*seeds, *scales = max(1, *seeds/5), 1
	}
	for i := range *seeds {
		trials.Seeds = append(trials.Seeds, uint64(i+1))
	}
	for i := range *scales {
		trials.Scales = append(trials.Scales, i+1)
	}
	outcomes := faultsuite.Try(cases, trials)
	if err := keep(trials.Known, *known); err != nil {
		return err
	}
	if *wrong != "" {
		if err := faultsuite.WritePages(*wrong, outcomes); err != nil {
			return err
		}
	}
	if err := faultsuite.WriteFaults(os.Stdout, outcomes); err != nil {
		return err
	}
	fmt.Println()
	faultsuite.ScoreOf(outcomes).Write(os.Stdout)
	return nil
}

// keep writes what advised changes were found to do, where a file for it was given.
func keep(known *faultsuite.Known, file string) error {
	if known == nil {
		return nil
	}
	return known.Write(file)
}

// look plays each case once.
func look(cases []faultsuite.Case, steps bool, records string) error {
	for _, c := range cases {
		played, err := c.Play(1, 1)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		if records != "" {
			file, err := os.Create(filepath.Join(records, c.Name+".json"))
			if err != nil {
				return err
			}
			if err := errors.Join(played.Record.Write(file, false), file.Close()); err != nil {
				return err
			}
		}
		if !steps {
			continue
		}
		fmt.Printf("%-34s", c.Name)
		for _, r := range played.Input.Records {
			fmt.Printf(" %.0f", r.StepSec())
		}
		last := played.Input.Records[len(played.Input.Records)-1]
		f := last.Service.Fleet
		fmt.Printf("\n%34s wait %.0f of %.0f s; %.1f engines, %.1f in flight each, slots %.0f %%, busy %.0f %%\n", "",
			last.StepPhases()[steprecord.PhaseWait], last.StepSec(), f.Engines, f.InFlight, 100*f.SlotShare, 100*f.BusyShare)
	}
	return nil
}

// writePage tries all cases, each with several seeds, and writes the score into a file.
func writePage(page, live string, draw uint64, once faultsuite.Trials) error {
	recorded, err := faultsuite.LiveCases(live)
	if err != nil {
		return err
	}
	once.Scales, once.Seeds = []int{1}, []uint64{1}
	often := once
	often.Seeds = []uint64{1, 2}
	var parts []faultsuite.Part
	for _, part := range []struct {
		name   string
		cases  []faultsuite.Case
		trials faultsuite.Trials
	}{
		{"simulated by package sim", faultsuite.SimCases(), once},
		{"simulated request by request, sharing no code", faultsuite.RequestCases(), often},
		{"the same, with sizes that are drawn", faultsuite.DrawnCases(drawnCases, draw), once},
		{"the same, in runs that wait already", faultsuite.WaitingCases(drawnCases, draw), once},
		{"healthy runs, with sizes that are drawn", faultsuite.HealthyCases(drawnCases, draw), once},
		{"live, on the whole service", recorded, once},
	} {
		outcomes := faultsuite.Try(part.cases, part.trials)
		fmt.Printf("%s\n", part.name)
		faultsuite.ScoreOf(outcomes).Write(os.Stdout)
		parts = append(parts, faultsuite.Part{Name: part.name, Outcomes: outcomes})
	}
	return faultsuite.WriteTables(page, parts)
}

const drawnCases = 96
