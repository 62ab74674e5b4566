// Package process is the provider whose engines are processes of this host: vLLM on its GPUs, or simulated engines.
//
// Each engine has a folder with its order, written before anything is started, and a keeper: a small process, this
// program again in a session of its own, that outlives whoever started it. The keeper holds a lock on the order as long
// as it lives, runs the engine, keeps its log within bounds, writes down why it ended, and kills what it leaves. So an
// engine is found by its order, and lives if the kernel says that the lock is held: no number of a process is trusted
// that may have become another's. All that is changed is changed under one lock of the host.
//
// Start reading at Provider; Keep is the keeper.
package process
