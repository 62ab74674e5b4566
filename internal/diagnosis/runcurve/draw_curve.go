package runcurve

import (
	"fmt"
	"io"

	"github.com/millrace/millrace/internal/kit/chart"
)

// WriteSVG writes the rewards with their intervals as a picture that stands alone.
func (c Curve) WriteSVG(w io.Writer) error {
	p := chart.Panel{Height: 260}
	p.Description = fmt.Sprintf("Mean reward of run %s by %s, with 95 %% intervals", c.Run, c.By)
	line := chart.PanelLine{Name: "mean reward", Class: "c"}
	for i, one := range c.Points {
		if one.Reward == nil {
			continue
		}
		at := float64(one.First+one.Last) / 2
		if c.By == ByTime {
			at = one.From.Sub(c.Points[0].From).Minutes()
		}
		half := max(0, one.Reward.Half)
		if i == 0 || at < p.From {
			p.From = at
		}
		p.To = max(p.To, at)
		line.Points = append(line.Points, chart.Point{X: at, Y: one.Reward.Mean, Low: one.Reward.Mean - half,
			High: one.Reward.Mean + half})
	}
	p.Lines = []chart.PanelLine{line}
	p.Ticks = chart.NumberTicks(p.From, p.To, 10, c.By != ByTime)
	axis := map[Axis]string{ByVersion: "policy version", ByStep: "step", ByTime: "minutes since the first step"}[c.By]
	return p.WriteFile(w, axis)
}
