package process

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/provider/commandline"
)

// inUse is the GPUs and ports of this host's engines, over all deployments that share the folder.
type inUse struct {
	gpus   map[string]string // who has each GPU, not each set: others may have cut their sets otherwise
	ports  map[int]bool
	last   int    // the port that was given last
	secret string // an engine that may live, with unreadable GPUs; empty: there is none
}

// trouble is why an engine is not started yet.
type trouble struct {
	waits error // for a place: there will be one
	fails error
}

// placePending starts every waiting engine that has a place, the oldest first, and returns the faults of the others.
// The caller holds the host's lock.
func (p *Provider) placePending(ctx context.Context) map[rollout.EngineID]trouble {
	troubles := map[rollout.EngineID]trouble{}
	orders, err := readOrders(p.dir)
	if err != nil {
		return troubles // the caller reads them, too
	}
	var waiting []*order
	for _, o := range orders {
		if _, waits, err := p.look(o); err == nil && waits {
			waiting = append(waiting, o)
		}
	}
	if len(waiting) == 0 {
		return troubles
	}
	used, err := p.used()
	slices.SortFunc(waiting, byAge)
	for _, o := range waiting {
		switch err := cmp.Or(err, ctx.Err()); {
		case err != nil:
			troubles[o.ID] = trouble{fails: err}
		default:
			troubles[o.ID] = p.placeAndLaunch(ctx, o, used)
		}
	}
	return troubles
}

func (p *Provider) placeAndLaunch(ctx context.Context, o *order, used *inUse) trouble {
	gpus, err := p.freeGPUs(used)
	if err != nil {
		return trouble{waits: err}
	}
	port, err := p.freePort(used)
	if err != nil {
		return trouble{waits: err}
	}
	begun, err := p.place(o, used, port, gpus)
	if begun {
		return trouble{}
	}
	if err != nil {
		return trouble{fails: fmt.Errorf("write the order of engine %s: %w", o.ID, err)}
	}
	if err := p.launch(ctx, o); err != nil {
		return trouble{fails: err}
	}
	return trouble{}
}

// used looks at every engine of the host that has a place and may live.
func (p *Provider) used() (*inUse, error) {
	used := &inUse{gpus: map[string]string{}, ports: map[int]bool{}}
	deployments, err := os.ReadDir(p.cfg.StateDir)
	if err != nil {
		return nil, err
	}
	for _, d := range deployments {
		if !d.IsDir() {
			continue
		}
		orders, err := readOrders(filepath.Join(p.cfg.StateDir, d.Name()))
		if err != nil {
			return nil, err
		}
		for _, o := range orders {
			owner := string(o.ID)
			if filepath.Dir(o.dir) != p.dir {
				owner += " of deployment " + nameOf(filepath.Dir(o.dir))
			}
			if o.bad != nil {
				if keeper, err := holder(o.file(keeperLock)); keeper != 0 || err != nil {
					used.secret = owner
				}
			}
			if o.Place == nil {
				continue
			}
			used.ports[o.Place.Port] = true // also of one that has ended: the fleet may know it by its address
			if e, waits, err := p.look(o); err == nil && (waits || e.State == enginestate.EngineFailed) {
				continue
			}
			used.take(o.Place, owner)
		}
	}
	text, _ := os.ReadFile(filepath.Join(p.cfg.StateDir, lastPort)) // without it the range begins anew
	used.last, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	return used, nil
}

// lastPort is the file with the port that was given last: ports go round, so that an engine does not get the address of
// one that the fleet has not forgotten yet.
const lastPort = "last-port"

func (u *inUse) take(at *place, owner string) {
	for gpu := range strings.SplitSeq(at.GPUs, ",") {
		if gpu = strings.TrimSpace(gpu); gpu != "" {
			u.gpus[gpu] = owner
		}
	}
	u.ports[at.Port] = true
	u.last = at.Port
}

// place gives an engine its GPUs and its port, and writes that down. It holds the keeper's lock meanwhile, so that a
// keeper that an earlier caller has started, and that comes late, finds that its place was given away. One that came
// just now has begun already.
func (p *Provider) place(o *order, used *inUse, port int, gpus string) (begun bool, err error) {
	lock, err := os.OpenFile(o.file(keeperLock), os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer lock.Close() // which unlocks
	if taken, err := hold(lock); !taken {
		return err == nil, err
	}
	if r, err := o.readRecord(); err != nil || !r.StartedAt.IsZero() {
		return err == nil, err // it came, and its engine has ended already
	}
	if o.Place, err = p.placeAt(o.ID, port, gpus); err != nil {
		return false, err
	}
	if err := o.write(); err != nil {
		return false, err
	}
	used.take(o.Place, string(o.ID))
	// If it cannot be written, ports repeat sooner.
	_ = os.WriteFile(filepath.Join(p.cfg.StateDir, lastPort), []byte(strconv.Itoa(port)), 0o600)
	return false, nil
}

func (p *Provider) freeGPUs(used *inUse) (string, error) {
	if len(p.cfg.GPUs) == 0 {
		return "", nil
	}
	if used.secret != "" {
		return "", fmt.Errorf("which GPUs engine %s has cannot be read; it must be stopped first", used.secret)
	}
	var owners []string
	for _, set := range p.cfg.GPUs {
		owner := ""
		for gpu := range strings.SplitSeq(set, ",") {
			owner = cmp.Or(used.gpus[strings.TrimSpace(gpu)], owner)
		}
		if owner == "" {
			return set, nil
		}
		owners = append(owners, fmt.Sprintf("%s: %s", set, owner))
	}
	return "", fmt.Errorf("no GPUs are free on this host (%s)", strings.Join(owners, "; "))
}

// freePort is a port that no engine has and where nothing listens.
func (p *Provider) freePort(used *inUse) (int, error) {
	first, last, err := p.cfg.portRange()
	if err != nil {
		return 0, err
	}
	size := last - first + 1
	begin := 0
	if used.last >= first && used.last < last {
		begin = used.last - first + 1
	}
	for i := range size {
		if port := first + (begin+i)%size; !used.ports[port] && p.listens(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no port is free between %d and %d", first, last)
}

// listens reports whether an engine could listen on a port, whichever address it takes.
func (p *Provider) listens(port int) bool {
	for _, host := range []string{"", "127.0.0.1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil || l.Close() != nil {
			return false
		}
	}
	return true
}

// placeAt fills in the template.
func (p *Provider) placeAt(id rollout.EngineID, port int, gpus string) (*place, error) {
	values := map[string]string{
		"{port}": strconv.Itoa(port), "{host}": p.cfg.Host, "{id}": string(id), "{gpus}": gpus, "{millrace}": p.keeper[0],
	}
	words, err := commandline.Split(p.cfg.Command)
	if err != nil {
		return nil, err
	}
	pl := &place{Attempt: rand.Text(), Port: port, GPUs: gpus,
		URL: "http://" + net.JoinHostPort(p.cfg.Host, strconv.Itoa(port)),
		Dir: p.cfg.Dir, Grace: p.cfg.Grace.Std(), LogBytes: p.cfg.LogBytes, Lifeline: p.cfg.Lifeline}
	for _, word := range words {
		pl.Command = append(pl.Command, commandline.Fill(word, values))
	}
	if gpus != "" {
		pl.Env = append(pl.Env, "CUDA_VISIBLE_DEVICES="+gpus)
	}
	for _, assignment := range p.cfg.Env { // the last of a name holds
		pl.Env = append(pl.Env, commandline.Fill(assignment, values))
	}
	if pl.Dir == "" {
		pl.Dir, err = os.Getwd()
	}
	return pl, err
}
