package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/diagnosis/runcurve"
	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/rollout"
)

// The points that are asked for unless the command line says how many.
const (
	pointsOfTable = 30
	pointsOfFile  = 500
)

func (s *session) curveCommand() *cobra.Command {
	var by string
	var points int
	cmd := s.onRun("curve RUN", cobra.ExactArgs(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			axes := []string{string(runcurve.ByVersion), string(runcurve.ByStep), string(runcurve.ByTime)}
			if !slices.Contains(axes, by) {
				return Usage("--by %s: use %s", by, strings.Join(axes, ", "))
			}
			if points < 0 || points > runcurve.MostPoints {
				return Usage("--points %d: at most %d; 0: as many as suit the output", points, runcurve.MostPoints)
			}
			most := cmp.Or(points, pointsOfFile)
			if points == 0 && s.format == "table" {
				most = pointsOfTable
			}
			query := url.Values{"by": {by}, "points": {strconv.Itoa(most)}}
			curve, a, err := apiclient.Get[runcurve.Curve](ctx, c.Client, apiclient.RunPath(run)+"/curve?"+query.Encode())
			if err != nil {
				return err
			}
			for _, note := range curve.Notes {
				s.Say("note: %s", note)
			}
			if len(curve.Points) == 0 {
				s.Say("no step of run %s is completed yet", run)
			}
			switch s.format {
			case "csv":
				return s.writeCurveCSV(a.Body)
			case "svg":
				return curve.WriteSVG(s.Stdout)
			}
			return s.show(a.Body, func() error { return s.writeCurve(curve) })
		})
	cmd.Annotations = map[string]string{formats: "csv svg"}
	cmd.Flags().StringVar(&by, "by", string(runcurve.ByVersion), "what a point is: version, step or time")
	cmd.Flags().IntVar(&points, "points", 0, "at most so many, neighbours as one; 0: as many as suit the output")
	return cmd
}

// figure is a column of a curve: its heading, how many times larger it is shown, and its value; nil: not known.
type figure struct {
	head  string
	times float64
	of    func(*runcurve.Point) *float64
}

// figures are the columns after the reward.
var figures = []figure{
	{"SPREAD", 1, func(p *runcurve.Point) *float64 { return p.Spread }},
	{"EQUAL %", 100, func(p *runcurve.Point) *float64 { return p.ZeroVariance }},
	{"TOKENS/TURN", 1, func(p *runcurve.Point) *float64 { return p.TokensPerTurn }},
	{"/GAME", 1, func(p *runcurve.Point) *float64 { return p.TokensPerGame }},
	{"INVALID %", 100, func(p *runcurve.Point) *float64 { return p.Invalid }},
	{"CUT %", 100, func(p *runcurve.Point) *float64 { return p.Cut }},
	{"HORIZON %", 100, func(p *runcurve.Point) *float64 { return p.Truncated }},
	{"PHASES", 1, func(p *runcurve.Point) *float64 { return p.Length }},
}

func (s *session) writeCurve(c runcurve.Curve) error {
	if len(c.Points) == 0 {
		return nil
	}
	columns := []table.Column{table.Left(strings.ToUpper(string(c.By))), table.Right("GAMES"), table.Right("GROUPS"),
		table.Right("REWARD ± 95 %"), table.Left(rangeBar(c, nil))}
	for _, f := range figures {
		columns = append(columns, table.Right(f.head))
	}
	t := table.New(append(columns, table.Left("LEFT OUT"))...)
	for i := range c.Points {
		p := &c.Points[i]
		row := []string{pointName(c.By, p), strconv.Itoa(p.Games), strconv.Itoa(p.Groups), "-", ""}
		if p.Reward != nil {
			row[3], row[4] = tablerow.Reward(*p.Reward), rangeBar(c, p.Reward)
		}
		for _, f := range figures {
			cell := "-"
			if v := f.of(p); v != nil {
				cell = fmt.Sprintf("%.*f", digitsOf(*v*f.times), *v*f.times)
			}
			row = append(row, cell)
		}
		t.Row(append(row, leftOut(p))...)
	}
	if err := s.write(t); err != nil {
		return err
	}
	return s.writeAgents(c)
}

// writeAgents is a table of each player's rewards, in games that train several.
func (s *session) writeAgents(c runcurve.Curve) error {
	agents := map[string]bool{}
	for _, p := range c.Points {
		for name := range p.Agents {
			agents[name] = true
		}
	}
	if len(agents) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(agents))
	columns := []table.Column{table.Left(strings.ToUpper(string(c.By)))}
	for _, name := range names {
		columns = append(columns, table.Right(name))
	}
	t := table.New(columns...)
	for i := range c.Points {
		row := []string{pointName(c.By, &c.Points[i])}
		for _, name := range names {
			cell := "-"
			if of, known := c.Points[i].Agents[name]; known {
				cell = tablerow.Reward(of)
			}
			row = append(row, cell)
		}
		t.Row(row...)
	}
	fmt.Fprintln(s.Stdout)
	return s.write(t)
}

// pointName is what a point is of.
func pointName(by runcurve.Axis, p *runcurve.Point) string {
	if by == runcurve.ByTime {
		return p.From.UTC().Format("01-02 15:04:05")
	}
	if p.First == p.Last {
		return strconv.FormatInt(p.First, 10)
	}
	return fmt.Sprintf("%d-%d", p.First, p.Last)
}

func digitsOf(v float64) int {
	switch {
	case v == 0 || math.Abs(v) >= 100:
		return 0
	case math.Abs(v) >= 1:
		return 1
	}
	return 3
}

// leftOut is what is not in a point's mean.
func leftOut(p *runcurve.Point) string {
	var parts []string
	for _, code := range slices.Sorted(maps.Keys(p.Dropped)) {
		parts = append(parts, fmt.Sprintf("%d groups %s", p.Dropped[code], code))
	}
	for what, n := range map[string]int{"games given up": p.Failed, "games cancelled": p.Cancelled,
		"rewards no numbers": p.Unusable} {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// barCells is how wide the bars of rewards are.
const barCells = 24

// rangeBar shows where between the curve's lowest and highest end an interval lies, as in "  ──●──  "; of none, it is
// the heading, with the ends.
func rangeBar(c runcurve.Curve, of *stat.Interval) string {
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range c.Points {
		if p.Reward != nil {
			half := max(0, p.Reward.Half)
			low, high = min(low, p.Reward.Mean-half), max(high, p.Reward.Mean+half)
		}
	}
	if low > high {
		return ""
	}
	if of == nil {
		left, right := strconv.FormatFloat(low, 'g', 3, 64), strconv.FormatFloat(high, 'g', 3, 64)
		return left + strings.Repeat(" ", max(1, barCells-len(left)-len(right))) + right
	}
	at := func(v float64) int {
		if high == low {
			return barCells / 2
		}
		return min(barCells-1, int((v-low)/(high-low)*barCells))
	}
	bar := []rune(strings.Repeat(" ", barCells))
	half := max(0, of.Half)
	for i := at(of.Mean - half); i <= at(of.Mean+half); i++ {
		bar[i] = '─'
	}
	bar[at(of.Mean)] = '●'
	return string(bar)
}

// csvFirst are the columns of a file that come first; the others are in the order of their names.
var csvFirst = []string{"first", "last", "from", "to", "groups", "games", "reward.mean", "reward.half"}

// writeCurveCSV writes what the API says of each point, a value within a value as OUTER.INNER. A cell is empty where
// nothing is known.
func (s *session) writeCurveCSV(document []byte) error {
	var curve struct {
		Points []map[string]any `json:"points"`
	}
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	if err := d.Decode(&curve); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	names := map[string]bool{}
	rows := make([]map[string]string, len(curve.Points))
	for i, point := range curve.Points {
		rows[i] = map[string]string{}
		flatten("", point, rows[i])
		for name := range rows[i] {
			names[name] = !slices.Contains(csvFirst, name)
		}
	}
	maps.DeleteFunc(names, func(_ string, other bool) bool { return !other })
	head := slices.Concat(csvFirst, slices.Sorted(maps.Keys(names)))
	w := csv.NewWriter(s.Stdout)
	_ = w.Write(head) // Flush tells
	for _, row := range rows {
		cells := make([]string, len(head))
		for i, name := range head {
			cells[i] = row[name]
		}
		_ = w.Write(cells)
	}
	w.Flush()
	return w.Error()
}

func flatten(path string, v any, into map[string]string) {
	inner, is := v.(map[string]any)
	if !is {
		into[path] = fmt.Sprint(v)
		return
	}
	for name, one := range inner {
		flatten(strings.TrimPrefix(path+"."+name, "."), one, into)
	}
}
