package crashtest

import "syscall"

// keepTemporalUnavailable kills Temporal, which starts again, and cuts everybody off from it, so that it is unavailable
// until the links are restored.
func (in *injector) keepTemporalUnavailable() (back func(), err error) {
	if err := in.signal("temporal", syscall.SIGKILL); err != nil {
		return nil, err
	}
	for _, k := range in.service.toTemporal() {
		k.sever()
	}
	in.watch.setTemporalUnavailable(true)
	return func() {
		in.watch.setTemporalUnavailable(false)
		for _, k := range in.service.toTemporal() {
			k.restore()
		}
	}, nil
}
