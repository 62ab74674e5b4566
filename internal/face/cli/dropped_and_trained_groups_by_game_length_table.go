package cli

import (
	"fmt"
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/kit/table"

	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// showDepartures writes how groups left, by the length of their games: whether what is lost is mostly long.
func (s *session) showDepartures(departures []steprecord.LengthCount) error {
	if len(departures) == 0 {
		return nil
	}
	fmt.Fprintln(s.Stdout)
	if err := s.write(departuresTable(departures)); err != nil {
		return err
	}
	for _, b := range diagnosis.Biases(departures) {
		fmt.Fprintf(s.Stdout, "Length bias: %s.\n", b)
	}
	return nil
}

// departuresTable has a column for each length that occurs, with the share of the row's groups.
func departuresTable(departures []steprecord.LengthCount) *table.Table {
	total := int64(0)
	occurs := map[int]bool{}
	for _, d := range departures {
		total += d.Groups
		for bucket, n := range d.ByLength {
			if n > 0 {
				occurs[bucket] = true
			}
		}
	}
	buckets := slices.Sorted(maps.Keys(occurs))
	columns := []table.Column{table.Left("LEFT AS"), table.Right("GROUPS"), table.Right("SHARE")}
	for i, bucket := range buckets {
		head := bucketText(bucket)
		if i == 0 {
			head += " PHASES"
		}
		columns = append(columns, table.Right(head))
	}
	t := table.New(columns...)
	for _, d := range departures {
		row := []string{string(d.Code), count(d.Groups), share(d.Groups, total)}
		for _, bucket := range buckets {
			cell := ""
			if bucket < len(d.ByLength) && d.ByLength[bucket] > 0 {
				cell = fmt.Sprintf("%d (%s)", d.ByLength[bucket], share(d.ByLength[bucket], d.Groups))
			}
			row = append(row, cell)
		}
		t.Row(row...)
	}
	return t
}

func bucketText(bucket int) string {
	from, to := steprecord.LengthBucket(bucket)
	if from == to {
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%d-%d", from, to)
}
