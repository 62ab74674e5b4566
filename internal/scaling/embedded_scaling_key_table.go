package scaling

import (
	_ "embed"

	"github.com/millrace/millrace/internal/kit/settings"
)

// Keys is a row for every setting of a Config, for the configuration's section `scaling` and for changes while the
// service runs. Workers take up those that are live while they run. Rules that concern several of them are Validate's.
var Keys = settings.ReadTable(keysFile)

//go:embed scaling_keys.json
var keysFile []byte
