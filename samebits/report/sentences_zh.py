"""Sentences of analyses, targets and comparisons, English to Chinese. {name} stands for a value."""

AUDIT = {
    "complete": "已做完",
    "budget": "预算用完",
    "interrupted": "被中断",
    "the budget ended": "预算用完",
    "target": "目标出错",
    "no calls were made": "没有调用",
    "more than half of the answers are missing": "缺少一半以上的回答",
    "too few prompts": "提示太少",
    "repeats differ among themselves in too many prompts": "太多提示重复时自身就不同",
    "tokens differ in too few prompts to rule out chance": "词元不同的提示太少，不能排除偶然",
    "bits differ in too few prompts to rule out chance": "比特不同的提示太少，不能排除偶然",
    "bits move, and tokens differ in too few prompts to rule out chance": "比特有变化，但词元不同的提示太少，不能排除偶然",
    "a restart alone changes it": "仅重启就会改变结果",
    "the same seed does not repeat": "同一种子不能重现",
    "repeats without sampling differ as well": "不采样时重复也不同",
    "bits were not visible: this is about tokens only": "看不到比特，此处仅就词元而言",
    "the rendered prompt contains the clock": "渲染后的提示中含有时钟",
    "the fingerprint stayed the same while the text changed: do not trust it": "文本变了而指纹未变，指纹不可信",
    "the seed is ignored or not enough": "种子被忽略，或仅有种子还不够",
    "another seed changes nothing": "换一个种子没有任何变化",
    "an omitted seed is a constant": "不给种子等于固定种子",
    "a null seed is a constant": "种子为 null 等于固定种子",
    "seed 0 does not repeat: zero is not taken as a value": "种子 0 不能重现：零没有被当作取值",
    "further samples of one request differ at temperature 0": "温度为 0 时同一请求的多个样本不同",
    "the target has nothing to choose from here": "目标在此没有可供选择的设置",
    "batch {n}": "批大小 {n}",
    "concurrency {n}": "并发数 {n}",
    "row {row} of {num}": "{num} 行中的第 {row} 行",
    "prompts of {n} tokens or more": "提示不少于 {n} 个词元",
    "prompts of {n} tokens or fewer": "提示不多于 {n} 个词元",
    "prompts of {n} characters or more": "提示不少于 {n} 个字符",
    "prompts of {n} characters or fewer": "提示不多于 {n} 个字符",
}
ENGINE = {
    "the engine keeps no prefix of an earlier request": "引擎不保留先前请求的前缀",
    "the engine never pads": "引擎从不填充",
    "among equal logits the engine always takes the lowest id; an exact tie shows as a margin of "
    "zero": "logit 相等时引擎总是取编号最小者；完全平局表现为差距为零",
    "the engine compares raw logits, never their log-softmax": "引擎比较原始 logit，从不比较 "
    "log-softmax",
    "the engine has one attention": "引擎只有一种注意力实现",
    "the engine compiles nothing": "引擎不做编译",
    "sb1 is one contract: there is no other number format": "sb1 是单一约定，没有其他数值格式",
    "the engine has no such arithmetic to compare with": "引擎没有这种算术可供比较",
    "no such kernels besides those in force": "除生效的内核外没有这种内核",
    "this thread count cannot be brought into force": "这个线程数无法生效",
    "no kernels here read these variables": "这里没有内核读取这些变量",
    "the engine scores one text at a time": "引擎一次只给一段文本打分",
    "without the cache the engine serves one sequence at a time": "没有缓存时引擎一次只处理一个序列",
    "a batch and concurrent requests are not brought about together": "批处理与并发请求不会同时进行",
    "the batch has no such row": "批中没有这一行",
    "more requests at once than make sense here": "同时请求数超出了这里的合理范围",
    "the engine reports fewer log-probabilities": "引擎报告的对数概率没有这么多",
    "the model has no chat template": "模型没有对话模板",
}
TRANSFORMERS = {
    "a model in this process serves one call at a time; its company is the batch": "本进程中的模型一次"
    "只处理一个调用，同伴就是同批的行",
    "every token is read as it is made; there is no stream to turn on": "词元在生成时即被读取，没有流式可"
    "开",
    "logits are read directly; no log-probabilities are asked for": "直接读取 logit，不请求对数概率",
    "transformers draws a whole batch from one generator: a neighbour has no seed of its own": ""
    "transformers 用同一个生成器为整批采样，同批请求没有自己的种子",
    "samples of one prompt are its batch": "同一提示的多个样本就是它的批",
    "without a cache a prompt has no parts": "没有缓存时提示不分段",
    "scoring reads the prompt once and makes nothing": "打分只读一次提示，不生成",
    "scoring reads the prompt in one pass": "打分一次读完提示",
    "no template is used, hence no clock": "没有使用模板，因此没有时钟",
    "instruction set {value} cannot be had here": "这里不能使用指令集 {value}",
    "dtype {value} cannot be had here": "这里不能使用数据类型 {value}",
    "attention {value} cannot be had here": "这里不能使用注意力实现 {value}",
    "torch.compile cannot be had here": "这里不能使用 torch.compile",
    "compiling takes minutes and was not asked for": "编译需要几分钟，且没有要求",
    "there is no C++ compiler": "没有 C++ 编译器",
}
HTTP = {
    "the server's process is not ours: start it so by hand, run `samebits audit --record` before and "
    "after, and `samebits compare` the two": "服务端进程不由我们掌握：请手动以该设置启动，前后各运行一次 "
    "`samebits audit --record`，再用 `samebits compare` 比较两份记录",
    "an endpoint has no field for padding": "接口没有填充字段",
    "the first call of a server's process is over when it has been opened": "连接打开时，服务端进程的首次"
    "调用已经过去",
    "an endpoint has no field for the chunk size": "接口没有分块大小字段",
    "an endpoint has no field that turns the KV cache off": "接口没有关闭 KV 缓存的字段",
    "a server's clock cannot be set from outside": "无法从外部设置服务端的时钟",
    "an endpoint has no field for the choice among equal logits": "接口没有指定平局取舍的字段",
    "a chat request holds one conversation; lists of prompts go to completions": "一个 chat 请求只含一段对"
    "话；成批的提示要用 completions 接口",
    "the server takes no list of prompts in one request": "服务端不接受一个请求中含多个提示",
    "there is no row {row} in a list of {num}": "{num} 个提示的列表中没有第 {row} 行",
    "the prompts of one request share one seed": "一个请求中的提示共用一个种子",
    "more than {num} requests at once were not allowed": "不允许同时发出超过 {num} 个请求",
    "the server refuses a temperature": "服务端拒绝温度参数",
    "the server refuses a seed": "服务端拒绝种子参数",
    "the server reports at most {num} log-probabilities a token": "服务端对每个词元最多报告 {num} 个对数"
    "概率",
    "the server does not stream": "服务端不支持流式输出",
    "the server does not report log-probabilities of the prompt": "服务端不报告提示的对数概率",
    "the server refuses several outputs: {said}": "服务端拒绝多个输出：{said}",
    "the server gave no several outputs: {found}": "服务端没有给出多个输出：{found}",
    "the server gave {num} of {of} outputs": "服务端只给出 {of} 个输出中的 {num} 个",
}
STUB = {
    "this stub reports no log-probabilities": "这个桩不报告对数概率",
    "this stub offers no {name}": "这个桩不提供 {name}",
    "this stub takes at most {num} requests at once": "这个桩最多同时接受 {num} 个请求",
}
COMPARE = {
    "no prompt was answered on both sides": "没有两边都回答了的提示",
    "tokens of {num} prompts differ, but a side was asked only once": "{num} 个提示的词元不同，但有一边只问"
    "过一次",
    "bits of {num} prompts differ, but a side was asked only once": "{num} 个提示的比特不同，但有一边只问"
    "过一次",
    "tokens of {num} prompts differ, but repeats of one side differ as well": "{num} 个提示的词元不同，但有"
    "一边重复时自身也不同",
    "bits of {num} prompts differ, but repeats of one side differ as well": "{num} 个提示的比特不同，但有"
    "一边重复时自身也不同",
    "tokens of {num} prompts differ: too few to rule out chance": "{num} 个提示的词元不同，数量太少，不能排"
    "除偶然",
    "bits of {num} prompts differ: too few to rule out chance": "{num} 个提示的比特不同，数量太少，不能排除"
    "偶然",
    "libraries choose kernels by it": "各库据此选择内核",
    "sums are split by thread counts": "求和按线程数划分",
    "default thread counts follow it: sums are split by thread counts": "默认线程数随之而定，求和按线程数"
    "划分",
    "another build of every library": "各库都是另一种构建",
    "its exp, log and sin round differently": "其 exp、log、sin 的舍入不同",
    "prompts may become other tokens": "提示可能变成不同的词元",
    "other kernels": "内核不同",
    "other kernels are chosen": "会选用其他内核",
    "other kernels or another order of operations": "内核或运算次序不同",
    "other libraries are loaded": "会加载其他库",
    "another library": "另一个库",
    "another question is asked": "问的是另一个问题",
    "the target computes otherwise": "目标的计算方式不同",
    "what can be compared": "可供比较的内容不同",
}
LOCK = {
    "another model": "模型不同",
    "other code": "代码不同",
    "products are rounded to fewer bits": "乘积舍入到更少的位数",
    "this environment computes it otherwise: results of models move with it": "本环境算出的结果不同，模型的结果会随之改变",
    "the probe sees another part of the environment": "探测所见的环境部分不同",
    "not known to steer numbers, nor known not to": "不知道它是否影响数值",
    "the engine batches, places or computes otherwise": "引擎的分批、放置或计算方式不同",
    "settings that are not on the list": "不在清单上的设置",
    "it was asked, and no library that is loaded reads it": "提出了要求，但已加载的库都不读取它",
    "other kernels and another scheduler": "内核与调度器不同",
    "it tells less of itself": "它透露的自身信息较少",
    "{name} is not installed": "未安装 {name}",
    "{name} cannot be imported ({error})": "无法导入 {name}（{error}）",
    "{name} cannot compute all cases ({error})": "{name} 无法算完全部项目（{error}）",
    "thread pools cannot be read ({error})": "无法读取线程池（{error}）",
    "thread pools differ between two processes": "两个进程的线程池不同",
    "facts of torch differ between two processes": "两个进程的 torch 情况不同",
    "packages differ between two processes": "两个进程的软件包不同",
}
SENTENCES_ZH: dict[str, str] = AUDIT | ENGINE | TRANSFORMERS | HTTP | STUB | COMPARE | LOCK
