package fault

import "slices"

// Ref is the stable name of a known fault: BH and four digits. The first digit
// says where it belongs: 1 host, 2 plugin, 3 config, 4 MCP servers, 5 policy.
type Ref string

// Row is what the table says of one fault.
type Row struct {
	Ref       Ref
	Class     Class
	Retryable bool
	Title     string // what happened
	Remedy    string // what to do about it
}

// Host faults.
const (
	UnknownTool      Ref = "BH1001"
	BadJSON          Ref = "BH1002"
	BadArguments     Ref = "BH1003"
	ArgumentsTooBig  Ref = "BH1004"
	CallTimeout      Ref = "BH1005"
	CallCancelled    Ref = "BH1006"
	CallFailed       Ref = "BH1007"
	HostStopping     Ref = "BH1008"
	StoreUnreadable  Ref = "BH1009"
	StoreFull        Ref = "BH1010"
	MemoryFull       Ref = "BH1011"
	UnknownSession   Ref = "BH1012"
	UnknownQuestion  Ref = "BH1013"
	QuestionClosed   Ref = "BH1014"
	QuestionLimit    Ref = "BH1015"
	WaitingForPerson Ref = "BH1016"
	HostBusy         Ref = "BH1017"
	StateTooLarge    Ref = "BH1018"
	StateConflict    Ref = "BH1019"
	KeyNotFound      Ref = "BH1020"
	NoHost           Ref = "BH1021"
	UnknownGuide     Ref = "BH1022"
	DataDirLocked    Ref = "BH1023"
	NoAnswerer       Ref = "BH1026"
	DataDirUnusable  Ref = "BH1024"
	AddressUnusable  Ref = "BH1025"
	UnknownFile      Ref = "BH1027"
	RunLimit         Ref = "BH1028"
	HostKey          Ref = "BH1029"
	BadMedia         Ref = "BH1030"
	NotAcceptable    Ref = "BH1031"
	FileTooLarge     Ref = "BH1032"
	NoScheduler      Ref = "BH1033"
	UnknownTask      Ref = "BH1034"
)

// Plugin faults.
const (
	PluginDied        Ref = "BH2001"
	PluginRestarting  Ref = "BH2002"
	PluginQuarantined Ref = "BH2003"
	PluginStopped     Ref = "BH2004"
	PluginStart       Ref = "BH2005"
	PluginHandshake   Ref = "BH2006"
	PluginBinary      Ref = "BH2007"
	PluginBusy        Ref = "BH2008"
	PluginProtocol    Ref = "BH2009"
	PluginMessageSize Ref = "BH2010"
	PluginConfig      Ref = "BH2011"
	PluginSandbox     Ref = "BH2012"
	PluginPanic       Ref = "BH2013"
	UnknownPlugin     Ref = "BH2014"
	NameTaken         Ref = "BH2015"
	BadOffer          Ref = "BH2016"
	PluginFenced      Ref = "BH2017"
	NestedBusy        Ref = "BH2018"
	OtherPlugin       Ref = "BH2019"
)

// Config faults.
const (
	ConfigSyntax  Ref = "BH3001"
	ConfigUnknown Ref = "BH3002"
	ConfigValue   Ref = "BH3003"
	ConfigSecret  Ref = "BH3004"
	ConfigMissing Ref = "BH3005"
	// ConfigNoEffect is a warning only.
	ConfigNoEffect Ref = "BH3006"
)

// Policy faults.
const (
	NotAllowed     Ref = "BH5001"
	GrantMissing   Ref = "BH5002"
	CallCycle      Ref = "BH5003"
	CallDepth      Ref = "BH5004"
	NeedsApproval  Ref = "BH5005"
	WasDenied      Ref = "BH5006"
	BadHandle      Ref = "BH5007"
	NotApprover    Ref = "BH5008"
	NoOwner        Ref = "BH5009"
	UnknownAgent   Ref = "BH5010"
	ForeignRequest Ref = "BH5011"
	TooManyGuesses Ref = "BH5012"
)

var rows = []Row{
	{UnknownTool, ToolNotFound, false, "no tool has this name", "look at the near names in the message, or at `bulkhead tools`"},
	{BadJSON, InvalidArguments, false, "the arguments are not a JSON object", "send one JSON object"},
	{BadArguments, InvalidArguments, false, "the arguments do not fit the tool's schema", "the message names the path, what was sent and what is expected"},
	{ArgumentsTooBig, InvalidArguments, false, "the arguments are larger than a message may be", "put the data into a file under /shared and pass its path"},
	{CallTimeout, Timeout, true, "the call did not end within its time", "try again, or raise `call_timeout` in the plugin's limits or `timeout` for the tool"},
	{CallCancelled, Interrupted, false, "the caller cancelled the call", "nothing; call again if it was not meant"},
	{CallFailed, ExecutionFailed, false, "the tool failed", "read the message; it is the tool's own"},
	{HostStopping, Unavailable, true, "the host is stopping", "call again when it is back"},
	{StoreUnreadable, Unavailable, false, "the database could not be read and was set aside", "restore a copy, or go on with the new one; the old file stands beside it"},
	{StoreFull, Unavailable, true, "the database could not be written", "free space on the disk of `data_dir` or make it writable"},
	{MemoryFull, TooLarge, false, "working memory has no room for this", "delete what is no longer needed or raise the budget"},
	{UnknownSession, NotFound, false, "no such session", "open a session of your own; sessions belong to the agent that opened them"},
	{UnknownQuestion, NotFound, false, "no such question", "`bulkhead questions` lists the open ones"},
	{QuestionClosed, Conflict, false, "the question is already answered or has expired", "call the tool again if it is still wanted"},
	{QuestionLimit, Unavailable, true, "too many questions are open", "answer or deny some with `bulkhead questions`"},
	{WaitingForPerson, Interrupted, true, "the call waits for an answer", "answer the question named, then repeat the call"},
	{HostBusy, Unavailable, true, "the host has more calls than it admits", "call again a little later"},
	{StateTooLarge, TooLarge, false, "the value is larger than state may be", "keep at most 1 MiB under one key"},
	{StateConflict, Conflict, true, "the value changed meanwhile", "read it again and repeat"},
	{KeyNotFound, NotFound, false, "no value under this key", "it may have expired; search for it"},
	{NoHost, Unavailable, true, "no host is running for this data_dir", "start one with `bulkhead serve`"},
	{UnknownGuide, NotFound, false, "no guide has this name", "`bulkhead guide` lists them"},
	{DataDirLocked, Unavailable, true, "another host uses this data_dir", "talk to that one, or use another `data_dir`"},
	{DataDirUnusable, Unavailable, false, "the host can't write its data_dir", "make it a folder that the host's user may write, or name another `data_dir`"},
	{AddressUnusable, Unavailable, true, "an address can't be listened on", "end what listens there, or set another `address`"},
	{NoAnswerer, Unavailable, false, "nobody can answer what the tool asks", "call it from a client with the capability named in the message"},
	{UnknownFile, NotFound, false, "no such file", "a file's id is good for the agent and the session that got it only, while the file is there"},
	{RunLimit, TooLarge, false, "the plugin has too many derived runs open", "its author releases a run when it has ended"},
	{HostKey, Unavailable, false, "the host key can't be used", "`chmod 600` it or restore it from a copy; without it, what is sealed is lost"},
	{BadMedia, InvalidArguments, false, "the request's body is not plain JSON by its own headers", "send `Content-Type: application/json` and no `Content-Encoding`"},
	{NotAcceptable, InvalidArguments, false, "the request's `Accept` refuses every form of the answer", "accept one of those the message names"},
	{FileTooLarge, TooLarge, false, "the file is too large to be read as a resource", "fetch it by `GET /v1/files/ID`, which gives it whole"},
	{NoScheduler, NotFound, false, "no plugin of the host schedules tasks", "add `plugin \"scheduling\"` with `grants = [\"runs\"]` to the config"},
	{UnknownTask, NotFound, false, "the agent has no scheduled task of this name", "`bulkhead schedule` lists all; `--agent` says whose it is"},

	{PluginDied, ExecutionFailed, false, "the plugin's process ended during the call", "call again; the plugin restarts by itself"},
	{PluginRestarting, Unavailable, true, "the plugin is restarting", "call again at the time named"},
	{PluginQuarantined, Unavailable, true, "the plugin is quarantined: it failed too often, or for a reason that only a person can mend", "see `bulkhead status`; `bulkhead plugin restart NAME` tries at once"},
	{PluginStopped, Unavailable, false, "the plugin is stopped", "`bulkhead plugin start NAME`"},
	{PluginStart, Unavailable, true, "the plugin could not be started", "read its last lines in `bulkhead status`"},
	{PluginHandshake, Unavailable, true, "the plugin's handshake was not acceptable", "build it against a current sdk; a plugin prints nothing on stdout before the handshake"},
	{PluginBinary, Unavailable, false, "the plugin's binary was refused", "it must be a regular executable inside the plugins folder that only its owner can write"},
	{PluginBusy, Unavailable, true, "all slots of the plugin and its queue are full", "call again a little later, or raise `calls` and `queue` in its limits"},
	{PluginProtocol, ExecutionFailed, false, "the plugin broke the protocol", "report it to the plugin's author with the message"},
	{PluginMessageSize, ExecutionFailed, false, "the plugin sent a message over 4 MiB", "the plugin must pass large data through the shared folder"},
	{PluginConfig, Unavailable, false, "the plugin refused its config", "run `bulkhead check`"},
	{PluginSandbox, Unavailable, false, "the sandbox that the config asks for can't be had here", "see the message; relax `sandbox` for this plugin or change the machine"},
	{PluginPanic, ExecutionFailed, false, "the tool's handler panicked", "report it to the plugin's author with the trace in the log"},
	{UnknownPlugin, NotFound, false, "no plugin has this name", "`bulkhead status` lists them"},
	{NameTaken, Conflict, false, "another plugin already offers this name", "rename one; the message names both owners"},
	{BadOffer, InvalidArguments, false, "the plugin offers something that is not acceptable", "report it to the plugin's author with the message"},
	{PluginFenced, Fenced, false, "this generation of the plugin was replaced", "nothing; the new generation goes on"},
	{NestedBusy, Unavailable, true, "no slot for a nested call came free", "call again a little later, or raise `calls` in the plugin's limits"},
	{OtherPlugin, Unavailable, false, "the binary put in a plugin's place is another plugin's, or offers none of its tools", "put the right binary there; if it was meant, change the plugin's block too, or give it a block of its own"},

	{ConfigSyntax, InvalidArguments, false, "the config can't be parsed", "see file, line and column in the message"},
	{ConfigUnknown, InvalidArguments, false, "the config has a key or block nobody knows", "see the suggestion in the message"},
	{ConfigValue, InvalidArguments, false, "a value in the config is not acceptable", "see the message"},
	{ConfigSecret, InvalidArguments, false, "a secret could not be read", "put it into `secrets/NAME` in the data_dir with mode 0600"},
	{ConfigMissing, InvalidArguments, false, "there is no config file", "name one with --config, or write config.hcl"},
	{ConfigNoEffect, InvalidArguments, false, "a setting has no effect in this version", "do not rely on it yet"},

	{NotAllowed, Denied, false, "the agent may not call this tool", "add it, its group or its plugin to the agent's block"},
	{GrantMissing, Denied, false, "the plugin has no grant for this", "add the line named in the message to the plugin's block"},
	{CallCycle, Denied, false, "the call would go round in a circle", "a plugin may be re-entered once in one chain"},
	{CallDepth, Denied, false, "the chain of nested calls is too deep", "at most 8 calls deep"},
	{NeedsApproval, Denied, true, "the call waits for approval", "`bulkhead approve ID`, then repeat the call"},
	{WasDenied, Denied, false, "a person denied the call", "do not repeat it without talking to them"},
	{BadHandle, Denied, false, "the call id or handle is not valid for this plugin", "use the id of a running call, or a handle the host minted for this plugin"},
	{NotApprover, Denied, false, "only an approver may do this", "answer as an agent with `approver = true`, or on the host's own command line"},
	{NoOwner, Denied, false, "a plugin acting for itself may not call a restricted tool", "name an `owner` in the plugin's block"},
	{UnknownAgent, Denied, false, "no agent has this name or token", "add an `agent` block"},
	{ForeignRequest, Denied, false, "the request came under a foreign host name or from a foreign page", "name it in `hosts` or `origins` of frontend \"http\" if it is yours"},
	{TooManyGuesses, Denied, true, "too many wrong tokens came from one address", "wait as `Retry-After` says and use the agent's token; right ones are served all the while"},
}

var table = func() map[Ref]Row {
	t := make(map[Ref]Row, len(rows))
	for _, r := range rows {
		if _, twice := t[r.Ref]; twice {
			panic("fault: " + string(r.Ref) + " stands twice in the table")
		}
		t[r.Ref] = r
	}
	return t
}()

// Rows lists the table in its order.
func Rows() []Row { return slices.Clone(rows) }

// Lookup finds the row of a reference.
func Lookup(ref Ref) (Row, bool) {
	r, ok := table[ref]
	return r, ok
}
