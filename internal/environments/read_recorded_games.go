package environments

import (
	"os"

	"github.com/millrace/millrace/internal/runrecord"
	"github.com/millrace/millrace/internal/settings"
	"github.com/millrace/millrace/internal/sim"
	"github.com/millrace/millrace/internal/sim/calibration"
)

// openRecorded reads the record whose games a setup plays again, and puts them into it.
func openRecorded(s *sim.Setup) settings.Faults {
	recorded := s.Workload.Recorded
	if recorded == nil || recorded.Games != nil {
		return nil
	}
	fault := func(err error) settings.Faults {
		return settings.Faults{{Path: "workload.recorded.file", Text: err.Error()}}
	}
	file, err := os.Open(recorded.File)
	if err != nil {
		return fault(err)
	}
	defer file.Close() // it is only read
	record, err := runrecord.Read(recorded.File, file)
	if err != nil {
		return fault(err)
	}
	if recorded.Games, err = calibration.Games(record); err != nil {
		return fault(err)
	}
	return nil
}
