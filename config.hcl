# What a fresh checkout runs with. `bulkhead check` tells what is wrong with it.

host {
  data_dir = "data"        # state, logs, secrets
  plugins  = "bin/plugins" # drop-in folder
  shared   = "data/shared" # files that tools share
}

frontend "http" {
  address = "127.0.0.1:7411"
}

plugin "web" {
  grants = ["shared", "tool:browser_render"]
  # config {
  #   search "brave" {
  #     api_key = env("BRAVE_API_KEY")
  #   }
  # }
}

# Files: without a workspace of its own, those of the shared folder.
plugin "workspace" {
  grants = ["shared"]
  # config {
  #   workspace "main" {
  #     path = "."
  #   }
  # }
}

# Runs Python in a sandbox: /usr/bin/python3, if it is installed.
plugin "scripts" {
  grants = ["shared"]
}

# Renders pages with Debian's chromium, if it is installed.
plugin "browser" {
  grants = ["shared"]
  limits {
    memory = "2GiB" # of each of its processes
  }
}

# MCP servers go in here; docs/plugins/mcp.md has all options.
plugin "mcp" {
  grants = ["shared"]
  # config {
  #   server "files" {
  #     command = ["npx", "-y", "@modelcontextprotocol/server-filesystem", "/shared"]
  #   }
  #   server "calendar" {
  #     url = "https://calendar-mcp.example/mcp"
  #   }
  # }
}

# Language models, for plugins that use them; docs/plugins/llm.md has all options.
plugin "llm" {
  grants = ["shared"]
  # config {
  #   model "high" {
  #     provider = "anthropic"
  #     model    = "claude-sonnet"
  #     api_key  = env("ANTHROPIC_API_KEY")
  #   }
  # }
}

# Has a model look at files, once plugin llm has one with image_input = true.
plugin "analyze" {
  grants = ["shared", "tool:llm_generate", "tool:llm_models"]
}

# Fires what agents schedule; a task that calls a tool needs "tool:NAME" here too.
plugin "scheduling" {
  grants = ["runs"]
  # config {
  #   time_zone = "Europe/Vienna"
  # }
}
