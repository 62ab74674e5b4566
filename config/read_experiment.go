package config

import (
	"bytes"
	"embed"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/experiment"
	"github.com/millrace/millrace/internal/settings"
	"github.com/millrace/millrace/internal/sim/enginemodel"
	"github.com/millrace/millrace/internal/sim/workload"
)

// OpenFile reads a file that an experiment names.
type OpenFile func(name string) ([]byte, error)

//go:embed experiments
var experiments embed.FS

// ExperimentNames lists the experiments that come with the program.
func ExperimentNames() []string {
	entries, err := experiments.ReadDir("experiments")
	if err != nil {
		panic(err) // Embedded.
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok {
			names = append(names, name)
		}
	}
	return names
}

// ExperimentFile is the text of an experiment that comes with the program; false: there is none of that name.
func ExperimentFile(name string) ([]byte, bool) {
	data, err := experiments.ReadFile("experiments/" + name + ".yaml")
	return data, err == nil
}

// ReadExperiment reads an experiment from YAML or JSON, with the traces and setups that it names: those that come with
// the program, or files. Its error is Faults: everything that is wrong, with places in the file called name.
func ReadExperiment(name string, data []byte, open OpenFile, env Environments) (*experiment.Experiment, error) {
	read := experiment.Default()
	r := &experimentReader{
		reader: reader{file: name, table: experiment.Table()}, open: open, environments: env,
		traces: map[string]*workload.Trace{},
	}
	r.read(data, &read)
	if r.unread() {
		return nil, r.faults.err()
	}
	r.check(&read)
	r.add(read.FormFaults())
	if len(r.faults) > 0 {
		return nil, r.faults.err()
	}
	for p := range read.Parts {
		r.cells(&read, p, data)
	}
	if len(r.faults) == 0 {
		r.add(read.Faults())
	}
	if err := r.faults.err(); err != nil {
		return nil, err
	}
	return &read, nil
}

type experimentReader struct {
	reader
	open         OpenFile
	environments Environments
	traces       map[string]*workload.Trace // that were read already
}

// setting is the document's section setting as plain values: a new one each time, to be changed.
func (r *experimentReader) setting(data []byte) map[string]any {
	scratch := &reader{table: r.table}
	scratch.places, scratch.values = maps.Clone(r.places), maps.Clone(r.values)
	root, err := parse(data)
	if err != nil {
		return map[string]any{} // It was read before.
	}
	document, _ := scratch.tree(root, "", 0).(map[string]any)
	setting, ok := document["setting"].(map[string]any)
	if !ok {
		return map[string]any{}
	}
	return setting
}

// setupKey begins what is set in a pipeline's setup.
const setupKey = "setup."

// cells reads every cell of a part.
func (r *experimentReader) cells(e *experiment.Experiment, p int, data []byte) {
	base := r.setting(data)
	for _, c := range e.Combinations(p) {
		if len(r.faults) > maxFaults {
			return
		}
		tree, from, ofSetup := clone(base).(map[string]any), map[string]string{}, []string{}
		for i, assignment := range c.Set {
			key, text, ok := strings.Cut(assignment, "=")
			key = strings.TrimSpace(key)
			if !ok || key == "" {
				r.once(c.Paths[i], fmt.Sprintf("want KEY=VALUE, such as engines=2, not %q", assignment))
				continue
			}
			from[key] = c.Paths[i]
			if of, ok := strings.CutPrefix(key, setupKey); ok {
				ofSetup = slices.DeleteFunc(ofSetup, func(a string) bool { return strings.HasPrefix(a, of+"=") })
				ofSetup = append(ofSetup, of+"="+text)
				continue
			}
			put(tree, strings.Split(key, "."), assignedValue(key, strings.TrimSpace(text)))
		}
		cell := experiment.Cell{At: c.At, Setting: e.Setting}
		r.cell(&cell, tree, ofSetup, func(key string) string { return place(from, key, p) })
		e.Parts[p].Cells = append(e.Parts[p].Cells, cell)
	}
}

// place is where in the file a key of a cell's setting stands.
func place(from map[string]string, key string, part int) string {
	for _, set := range slices.Sorted(maps.Keys(from)) {
		if within(key, set) || within(set, key) {
			return from[set]
		}
	}
	return "setting." + key
}

// once reports a fault of a cell, unless another cell has it, too.
func (r *experimentReader) once(at, text string) {
	if !slices.ContainsFunc(r.faults, func(f *Fault) bool { return f.Path == at && f.Text == text }) {
		r.faultAt(at, "%s", text)
	}
}

// cell reads the setting of one cell, and what it names.
func (r *experimentReader) cell(cell *experiment.Cell, tree map[string]any, ofSetup []string,
	placeOf func(string) string) {
	table := experiment.SettingTable()
	cell.Setting = experiment.DefaultSetting()
	faults := table.Read(tree, &cell.Setting)
	faults = append(faults, table.Check(&cell.Setting, settings.Reading{Faults: faults})...)
	if len(faults) == 0 && cell.Setting.Setup == "" {
		faults = append(faults, cell.Setting.Faults()...)
	}
	report := func(key, text string) {
		at := placeOf(key)
		if at != "setting."+key {
			text = key + ": " + text
		}
		r.once(at, text)
	}
	for _, f := range faults {
		report(f.Path, f.Text)
	}
	if len(faults) > 0 {
		return
	}
	switch {
	case cell.Setting.Setup != "":
		r.setup(cell, ofSetup, report)
	case len(ofSetup) > 0:
		report("setup", "is missing: "+setupKey+ofSetup[0]+" is of a setup")
	case cell.Setting.Arrivals.Process == workload.TraceArrivals:
		r.trace(cell, report)
	}
	if name := cell.Setting.Engine.Time.Table; name != "" {
		r.batchTimes(cell, name, report)
	}
}

func (r *experimentReader) setup(cell *experiment.Cell, assignments []string, report func(key, text string)) {
	name := cell.Setting.Setup
	data, err := experiments.ReadFile("experiments/setups/" + name + ".yaml")
	if err != nil {
		if data, err = r.open(name); err != nil {
			report("setup", fmt.Sprintf("%v; the setups that come with the program are %s", err,
				strings.Join(setupNames(), ", ")))
			return
		}
	}
	setup, _, err := ReadSetup(path.Base(name), data, assignments, r.environments, nil)
	if err != nil {
		report("setup", err.Error())
		return
	}
	cell.Setup = &setup
}

func setupNames() []string {
	entries, err := experiments.ReadDir("experiments/setups")
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

func (r *experimentReader) trace(cell *experiment.Cell, report func(key, text string)) {
	name := cell.Setting.Arrivals.Trace
	if known, ok := r.traces[name]; ok {
		cell.Trace = known
		return
	}
	trace, ok := workload.KnownTrace(name)
	if !ok {
		data, err := r.open(name)
		if err == nil {
			trace, err = workload.ReadTrace(name, data, workload.Times)
		} else {
			err = fmt.Errorf("%w; the traces that come with the program are %s", err, strings.Join(workload.TraceNames(), ", "))
		}
		if err != nil {
			report("arrivals.trace", err.Error())
			return
		}
	}
	r.traces[name] = &trace
	cell.Trace = &trace
}

// batchTimes reads the table of how long batches take.
func (r *experimentReader) batchTimes(cell *experiment.Cell, name string, report func(key, text string)) {
	data, err := r.open(name)
	if err != nil {
		report("engine.time.table", err.Error())
		return
	}
	table, err := enginemodel.ReadTableTime(name, bytes.NewReader(data))
	if err != nil {
		report("engine.time.table", err.Error())
		return
	}
	cell.Setting.Engine.Time = cell.Setting.Engine.Time.WithTable(table)
}

// clone copies plain values all the way down.
func clone(tree any) any {
	switch tree := tree.(type) {
	case map[string]any:
		object := make(map[string]any, len(tree))
		for key, value := range tree {
			object[key] = clone(value)
		}
		return object
	case []any:
		list := make([]any, len(tree))
		for i, item := range tree {
			list[i] = clone(item)
		}
		return list
	}
	return tree
}
