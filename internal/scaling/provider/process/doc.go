// Package process is the provider whose engines are processes of this host: vLLM on its GPUs, or simulated engines.
//
// Each engine has a folder with its order, written before anything is started, and a keeper: a small process, this
// program again in a session of its own, that outlives its starter. The keeper holds a lock on the order as long as it
// lives, runs the engine, bounds its log, writes down why it ended, and kills what it leaves. So an engine is found by
// its order, and lives if the kernel says that the lock is held: process ids are not trusted, because they are reused.
// All changes are made under one lock of the host.
//
// Start reading at Provider; Keep is the keeper.
package process
