package experiment

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/simulate/setup"
	"github.com/millrace/millrace/trials/experiment/arrivals"
	"github.com/millrace/millrace/trials/experiment/seed003"
)

//go:embed files
var files embed.FS

// Names lists the experiments.
func Names() []string {
	entries, err := files.ReadDir("files")
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

// Read reads the experiment of a name, with every cell of its parts.
func Read(name string) (*Experiment, error) {
	data, err := files.ReadFile("files/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("there is no experiment %s; there are %s", name, strings.Join(Names(), ", "))
	}
	e := Experiment{Seeds: 5, Setting: defaultSetting()}
	text, err := yaml.YAMLToJSON(data)
	if err == nil {
		err = decode(text, &e)
	}
	var document struct{ Setting map[string]any }
	if err == nil {
		err = json.Unmarshal(text, &document)
	}
	for p := range e.Parts {
		if err == nil {
			err = e.Parts[p].readCells(document.Setting)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s.yaml: %w", name, err)
	}
	return &e, nil
}

// decode reads JSON strictly: a key that nobody knows is an error.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// defaultSetting is what a setting says where it says nothing.
func defaultSetting() Setting {
	return Setting{
		Arrivals: arrivals.Arrivals{Process: arrivals.PoissonArrivals}, Engines: 1, Engine: Engine{Batching: WholeBatches},
		Dispatch: Dispatch{Dispatch: spec.Default().Dispatch}, Assign: AssignFree, Told: ToldLengths, BinEnds: AsDispatched,
		Scheduler: TheDispatcher,
		Scaling:   Scaling{Least: 1, Most: 16, ScaleDown: rollout.Duration(10 * time.Minute)},
	}
}

// setupKey begins what is set in a pipeline's setup.
const setupKey = "setup."

// readCells reads every cell of a part: the experiment's setting with what the part and the cell's points set in it.
func (p *Part) readCells(setting map[string]any) error {
	for _, column := range p.Columns {
		if _, known := MetricNamed(column); !known {
			return fmt.Errorf("part %s: there is no metric %s", p.Name, column)
		}
	}
	for _, c := range p.combinations() {
		cell := Cell{At: c.at, Setting: defaultSetting()}
		if err := cell.read(setting, c.set); err != nil {
			return fmt.Errorf("part %s, %s: %w", p.Name, cell.Name(), err)
		}
		p.Cells = append(p.Cells, cell)
	}
	return nil
}

func (c *Cell) read(setting map[string]any, assignments []string) error {
	tree, err := clone(setting)
	if err != nil {
		return err
	}
	ofSetup := map[string]string{}
	for _, assignment := range assignments {
		key, text, ok := strings.Cut(assignment, "=")
		if !ok {
			return fmt.Errorf("want KEY=VALUE, such as engines=2, not %q", assignment)
		}
		if of, is := strings.CutPrefix(key, setupKey); is {
			ofSetup[of] = text
			continue
		}
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			return fmt.Errorf("%s: %w", assignment, err)
		}
		if value == nil {
			value = ""
		}
		put(tree, strings.Split(key, "."), value)
	}
	text, err := json.Marshal(tree)
	if err == nil {
		err = decode(text, &c.Setting)
	}
	if err != nil {
		return err
	}
	if c.Setting.Setup != "" {
		return c.readSetup(ofSetup)
	}
	return c.check()
}

func clone(tree map[string]any) (map[string]any, error) {
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	copied := map[string]any{}
	return copied, json.Unmarshal(text, &copied)
}

func put(document map[string]any, path []string, value any) {
	for ; len(path) > 1; path = path[1:] {
		inner, ok := document[path[0]].(map[string]any)
		if !ok {
			inner = map[string]any{}
			document[path[0]] = inner
		}
		document = inner
	}
	document[path[0]] = value
}

func (c *Cell) readSetup(set map[string]string) error {
	name := c.Setting.Setup + ".yaml"
	data, err := files.ReadFile("files/setups/" + name)
	if err != nil {
		return err
	}
	var assignments []string
	for key, text := range set {
		assignments = append(assignments, key+"="+text)
	}
	read, _, err := setup.Read(name, data, assignments)
	c.Setup = &read
	return err
}

// check reports what is wrong with an open-loop cell, and finds its trace.
func (c *Cell) check() error {
	s := &c.Setting
	var wrong error
	s.Arrivals.Validate(func(key, text string) { wrong = fmt.Errorf("arrivals.%s: %s", key, text) })
	t := s.Engine.Time
	formula := t.PerBatch > 0 || t.PerRequest > 0 || t.PerToken > 0 || t.PerRequestToken > 0
	known := s.Scheduler == TheDispatcher || seed003.Known(seed003.Policy(s.Scheduler))
	switch {
	case wrong != nil:
		return wrong
	case !known:
		return fmt.Errorf("there is no scheduler %s", s.Scheduler)
	case s.Engine.Batching == WholeBatches && formula == (len(t.Measured) > 0):
		return fmt.Errorf("engine.time: want a formula or measured times, of how long a batch takes")
	case s.Assign != AssignFree && s.Lock:
		return fmt.Errorf("lock: with a lock there is one queue: leave assign out")
	case s.Arrivals.Process == arrivals.TraceArrivals:
		trace, err := arrivals.ReadTrace(s.Arrivals.Trace)
		c.Trace = &trace
		return err
	}
	return nil
}
