// Command offpolicy shows what buffer depth costs and buys: reward against steps, and against time. Which version
// samples each group of each batch, and when the step ends, comes from the product's simulator; the games are then
// played by those versions of a policy that learns (millrace dev --learn has the same). It writes a table and a figure.
// Start reading at run.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/kit/chart"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/simulate/setup"
	"github.com/millrace/millrace/internal/simulate/sim"
	"github.com/millrace/millrace/trials/figure"
)

//go:embed setup.yaml
var setupFile []byte

// arm is a way to run: a depth, and whether the trainer weighs what earlier versions have sampled.
type arm struct {
	name    string
	depth   int
	weights bool
}

var arms = []arm{{"1", 1, true}, {"2", 2, true}, {"4", 4, true}, {"4, no importance weights", 4, false}}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "offpolicy:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("offpolicy", flag.ContinueOnError)
	seeds := flags.Int("seeds", 10, "runs of each")
	steps := flags.Int("steps", 50, "steps of each run")
	path := flags.String("figure", "", "file of the figure, such as off-policy.svg")
	if err := flags.Parse(args); err != nil {
		return err
	}
	curves := make([][]curve, len(arms))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, a := range arms {
		curves[i] = make([]curve, *seeds)
		for seed := range *seeds {
			group.Go(func() (err error) {
				curves[i][seed], err = learn(ctx, a, seed, *steps)
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := writeTable(out, curves); err != nil || *path == "" {
		return err
	}
	return writeFigure(*path, curves)
}

// curve is one run: of each step its end, the mean staleness of its batch, and the reward of the policy after it.
type curve struct{ seconds, staleness, reward []float64 }

// learn plays the schedule of a simulated run.
func learn(ctx context.Context, a arm, seed, steps int) (curve, error) {
	s, _, err := setup.Read("setup.yaml", setupFile, []string{fmt.Sprintf("buffer.depth=%d", a.depth),
		fmt.Sprintf("seed=%d", seed), fmt.Sprintf("steps=%d", steps)})
	if err != nil {
		return curve{}, err
	}
	simulated, err := sim.Run(ctx, s, sim.Options{})
	if err != nil {
		return curve{}, err
	}
	p, err := newPlayer(s.Spec, a.weights, uint64(seed))
	if err != nil {
		return curve{}, err
	}
	var c curve
	last := simulated.Input.Records[len(simulated.Input.Records)-1]
	began := last.Service.CompletedAt.Add(-simulated.Wall)
	for _, r := range simulated.Input.Records {
		stale := 0.0
		var versions []int
		for _, g := range r.Service.Groups {
			versions = append(versions, int(g.MinVersion))
			stale += float64(int(r.Step)-int(g.MinVersion)) / float64(len(r.Service.Groups))
		}
		if err := p.train(versions); err != nil {
			return c, err
		}
		reward, err := p.reward()
		if err != nil {
			return c, err
		}
		c.seconds = append(c.seconds, r.Service.CompletedAt.Sub(began).Seconds())
		c.staleness, c.reward = append(c.staleness, stale), append(c.reward, reward)
	}
	return c, ctx.Err()
}

// window is how many steps a point of table and figure stands for.
const window = 4

// at is the mean of a window of steps, over all seeds.
func at(curves []curve, from int, value func(curve) []float64) stat.Interval {
	var means []float64
	for _, c := range curves {
		mean, _ := stat.Moments(value(c)[from : from+window])
		means = append(means, mean)
	}
	return stat.Mean(means, 0.95)
}

func rewards(c curve) []float64 { return c.reward }

// reached is when the reward of a window, over all seeds, first was as high: the step and the second, or -1.
func reached(curves []curve, reward float64) (step int, seconds float64) {
	for from := 0; from+window <= len(curves[0].reward); from++ {
		if at(curves, from, rewards).Mean >= reward {
			return from + window, at(curves, from, func(c curve) []float64 { return c.seconds }).Mean
		}
	}
	return -1, -1
}

// goal is a reward that all depths come to.
const goal = 0.86

func writeTable(w io.Writer, curves [][]curve) error {
	t := table.New(table.Left("DEPTH"), table.Right("STALENESS"), table.Right("STEP s"), table.Right("STEPS"),
		table.Right("SECONDS"), table.Right("REWARD AT THE END"))
	for i, a := range arms {
		n := len(curves[i][0].reward)
		step, seconds := reached(curves[i], goal)
		all := at(curves[i], n-window, func(c curve) []float64 { return c.seconds }).Mean / (float64(n) - window/2)
		t.Row(a.name, at(curves[i], n-window, func(c curve) []float64 { return c.staleness }).Format("%.1f"),
			fmt.Sprintf("%.1f", all), fmt.Sprint(step), fmt.Sprintf("%.0f", seconds),
			at(curves[i], n-window, rewards).Format("%.3f"))
	}
	fmt.Fprintf(w, "%d runs of each; STEPS and SECONDS until the mean reward is %.2f\n", len(curves[0]), goal)
	return t.Write(w, 0)
}

func writeFigure(path string, curves [][]curve) error {
	half := func(title, label string, x func(curve) []float64) figure.Figure {
		f := figure.Figure{Title: title, XLabel: label, YLabel: "mean reward",
			Subtitle: fmt.Sprintf("tic-tac-toe, %d runs of each, means of %d steps with 95 %%", len(curves[0]), window)}
		for i, a := range arms {
			line := chart.PanelLine{Name: "depth " + a.name}
			for from := 0; from+window <= len(curves[i][0].reward); from += window {
				r := at(curves[i], from, rewards)
				point := chart.Point{X: at(curves[i], from, x).Mean, Y: r.Mean, Low: r.Mean - r.Half, High: r.Mean + r.Half}
				line.Points = append(line.Points, point)
				f.To = max(f.To, point.X)
			}
			f.Lines = append(f.Lines, line)
		}
		f.Ticks = chart.NumberTicks(0, f.To, 10, true)
		return f
	}
	numbers := func(c curve) []float64 {
		var steps []float64
		for i := range c.reward {
			steps = append(steps, float64(i+1))
		}
		return steps
	}
	var svg bytes.Buffer
	if err := figure.Write(&svg, "What buffer depth costs and buys",
		half("Reward against steps", "steps", numbers),
		half("Reward against time", "seconds, simulated", func(c curve) []float64 { return c.seconds })); err != nil {
		return err
	}
	return os.WriteFile(path, svg.Bytes(), 0o644)
}
